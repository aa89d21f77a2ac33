#!/bin/sh
# A real SLURM of two nodes on this machine, without systemd.  For root on Debian 12 or later.
#   tests/slurm/slurm.sh test           all of start, the tests of this folder, and stop
#   tests/slurm/slurm.sh start FOLDER   installs what is missing, starts the daemons and waits until jobs are taken
#   tests/slurm/slurm.sh stop FOLDER    ends them
# All of its state, and the slurm.conf that SLURM_CONF has to name, is in FOLDER.
set -eu

if [ "${1:?test, start or stop}" = test ]; then
    here=$(cd "$(dirname "$0")" && pwd) folder=$(mktemp -d)
    trap '"$here/slurm.sh" stop "$folder"; rm -rf "$folder"' EXIT
    "$here/slurm.sh" start "$folder"
    cd "$here/../.."
    SLURM_CONF="$folder/slurm.conf" .venv/bin/python -m pytest -q -n 0 -m slow tests/slurm
    exit
fi
action=${1:?start or stop} folder=$(mkdir -p "${2:?a folder}" && cd "$2" && pwd)
export SLURM_CONF="$folder/slurm.conf"

stop() {
    for file in "$folder"/*.pid; do
        [ -f "$file" ] && kill "$(cat "$file")" 2>/dev/null || true
    done
}

if [ "$action" = stop ]; then
    stop
    exit
fi

if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq slurm-wlm munge
fi

# munge vouches for users; its folders belong to its own user
host=$(hostname -s)
grep -qw "$host" /etc/hosts || echo "127.0.0.1 $host" >>/etc/hosts
install -d -o munge -g munge -m 0755 /run/munge
install -d -o munge -g munge -m 0700 /var/lib/munge /var/log/munge
[ -f /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=128 count=1 2>/dev/null; }
chown munge:munge /etc/munge /etc/munge/munge.key && chmod 0400 /etc/munge/munge.key
munge -n >/dev/null 2>&1 || setpriv --reuid munge --regid munge --clear-groups munged

mkdir -p "$folder/state" "$folder/spoolnode1" "$folder/spoolnode2"
cores=$(nproc)
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
MailProg=/bin/true
# seconds: what is over its time is sent SIGTERM, and SIGKILL so long after it
KillWait=5
SlurmdTimeout=60
SchedulerParameters=sched_interval=2,batch_sched_delay=1
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=16821 CPUs=$cores RealMemory=4000
NodeName=node2 NodeHostname=$host NodeAddr=127.0.0.1 Port=16822 CPUs=$cores RealMemory=4000
PartitionName=main Nodes=node[1-2] Default=YES MaxTime=60 State=UP
PartitionName=second Nodes=node2 MaxTime=60 State=UP
END

slurmctld
slurmd -N node1
slurmd -N node2
end=$(($(date +%s) + 60))
until [ "$(sinfo -h -o %t 2>/dev/null | sort -u)" = idle ]; do
    [ "$(date +%s)" -lt "$end" ] || { echo "SLURM does not start; see $folder/*.log" >&2; exit 1; }
    sleep 0.5
done
echo "SLURM_CONF=$SLURM_CONF"
