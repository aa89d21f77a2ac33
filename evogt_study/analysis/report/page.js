"use strict";
// The page is whole without this: it sorts and filters tables, tells the values of marks under the pointer, and
// gives the command that computes the run of a mark again.  It loads nothing and writes nothing but text.
const data = JSON.parse(document.getElementById("marks").textContent);
const chosen = {};  // labels by axis
const made = (tag, text = "", parent = null) => {
  const element = document.createElement(tag);
  element.textContent = text;
  if (parent) parent.append(element);
  return element;
};
const number = text => parseFloat(text.replace(/,/g, ""));

// --- tables that sort
const order = (a, b) => {
  const [x, y] = [number(a), number(b)];
  if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y) || a.localeCompare(b, undefined, { numeric: true });
  return x - y;
};
function sort(head, column) {
  const body = head.closest("table").tBodies[0];
  const down = head.ariaSort === "ascending";
  for (const each of head.parentNode.cells) each.ariaSort = null;
  head.ariaSort = down ? "descending" : "ascending";
  const rows = [...body.rows].sort((a, b) => order(a.cells[column].textContent, b.cells[column].textContent));
  body.append(...(down ? rows.reverse() : rows));
}
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = made("button", head.textContent);
    button.type = "button";
    button.addEventListener("click", () => sort(head, column));
    head.replaceChildren(button);
  });
}

// --- runs: the labels of a cell, and the command that computes it again
function labels(phase, run) {
  const found = {};
  for (let i = phase.axes.length - 1; i >= 0; i--) {
    const all = phase.labels[i];
    found[phase.axes[i]] = all[run % all.length];
    run = Math.floor(run / all.length);
  }
  return Object.fromEntries(phase.axes.map(axis => [axis, found[axis]]));
}
const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
const point = at => Object.entries(at).map(([axis, label]) => `${axis}=${label}`).join(",");
const fits = at => Object.entries(chosen).every(([axis, label]) => !(axis in at) || at[axis] === label);
const replay = document.getElementById("replay");
function show(phase, at) {
  if (!data.replays) return;
  const code = made("code", `evogt replay ${quoted(data.file)}${phase.pilot ? " --pilot" : ""} --at ${quoted(point(at))}`);
  const close = made("button", "Close");
  close.addEventListener("click", () => { replay.hidden = true; });
  replay.replaceChildren(made("p", "Compute this run again, beside the result file:"), code, close);
  replay.hidden = false;
  getSelection().selectAllChildren(code);
}

// --- pictures: values under the pointer
const GRID = 1000;  // steps across a picture
const tip = document.getElementById("tip");
const svg = (tag, parent, name) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  element.setAttribute("class", name);
  parent.append(element);
  return element;
};
const dot = mark => `M${mark.x} ${mark.y}h0`;
function marks(phase, picture) {
  const found = [];
  const speak = name => name.replaceAll("_", " ");
  for (let i = 0, run = 0; i < picture.runs.length; i += 3) {
    const [x, y, step] = picture.runs.slice(i, i + 3);
    run += step;
    const at = labels(phase, phase.cells[run]);
    const where = Object.entries(at).map(([axis, label]) => `\n${axis} = ${label}`).join("");
    const value = phase.values[picture.variable][run];
    found.push({ x, y, at, text: `${speak(picture.variable)}: ${value}${where}${data.replays ? "\nclick: the command for this run" : ""}` });
  }
  for (const { name, points } of picture.others) {
    for (let i = 0; i < points.length; i += 4) {
      const [x, y, value, along] = points.slice(i, i + 4);
      found.push({ x, y, text: `${speak(name)}: ${value}${along === null ? "" : ` at ${along}`}` });
    }
  }
  return found;
}
function nearest(all, box, event) {
  let [best, least] = [null, 24 * 24];  // pixels that a finger misses by
  for (const mark of all) {
    if (mark.at && !fits(mark.at)) continue;
    const dx = box.left + mark.x * box.width / GRID - event.clientX;
    const dy = box.top + mark.y * box.height / GRID - event.clientY;
    if (dx * dx + dy * dy < least) [best, least] = [mark, dx * dx + dy * dy];
  }
  return best;
}
const filtered = [];  // what has to be done when another label is chosen
for (const phase of data.phases) {
  let cell = 0;
  phase.cells = phase.cells.map(step => cell += step);
  for (const [name, picture] of Object.entries(phase.pictures)) {
    const frame = document.getElementById(name);
    const all = marks(phase, picture);
    const layer = svg("svg", frame, "marks");
    layer.setAttribute("viewBox", `0 0 ${GRID} ${GRID}`);
    layer.setAttribute("preserveAspectRatio", "none");
    const fitting = svg("path", layer, "fitting"), ring = svg("path", layer, "ring");
    frame.addEventListener("pointermove", event => {
      const mark = nearest(all, frame.getBoundingClientRect(), event);
      tip.hidden = !mark;
      ring.setAttribute("d", mark ? dot(mark) : "");
      frame.classList.toggle("run", Boolean(mark && mark.at));
      if (!mark) return;
      tip.textContent = mark.text;
      tip.style.left = `${Math.max(0, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
      tip.style.top = `${Math.max(0, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8))}px`;
    });
    frame.addEventListener("pointerleave", () => { tip.hidden = true; ring.setAttribute("d", ""); });
    frame.addEventListener("click", event => {
      const mark = nearest(all, frame.getBoundingClientRect(), event);
      if (mark && mark.at) show(phase, mark.at);
    });
    filtered.push(() => {
      const some = Object.keys(chosen).some(axis => phase.axes.includes(axis));
      fitting.setAttribute("d", some ? all.filter(mark => mark.at && fits(mark.at)).map(dot).join("") : "");
    });
  }
}

// --- rows: of single runs their command, and a filter by the axes
const study = data.phases[0];
for (const table of document.querySelectorAll("table.pivot")) {
  const heads = [...table.tHead.rows[0].cells].map(head => head.textContent);
  const at = row => Object.fromEntries(heads.flatMap((head, i) =>
    study.axes.includes(head) && row.cells[i].tagName === "TH" ? [[head, row.cells[i].textContent]] : []));
  const note = made("p");
  note.className = "quiet";
  table.parentNode.after(note);
  filtered.push(() => {
    const rows = [...table.tBodies[0].rows];
    for (const row of rows) row.hidden = !fits(at(row));
    const shown = rows.filter(row => !row.hidden).length;
    note.textContent = shown < rows.length ? `${shown} of ${rows.length} rows, by the filter` : "";
  });
  if (!data.replays || !table.classList.contains("runs")) continue;
  for (const row of table.tBodies[0].rows) {
    const button = made("button", "replay", row.insertCell());
    button.addEventListener("click", () => show(study, at(row)));
  }
  made("th", "run", table.tHead.rows[0]).scope = "col";
}
const bar = document.getElementById("filter");
for (const phase of data.phases) {
  for (const axis of phase.filters.filter(each => ![...bar.querySelectorAll("select")].some(one => one.name === each))) {
    const select = made("select", "", made("label", `${axis.replaceAll("_", " ")} `, bar));
    select.name = axis;
    made("option", "all", select).value = "";
    for (const label of phase.labels[phase.axes.indexOf(axis)]) made("option", label, select).value = `=${label}`;
    select.addEventListener("change", () => {
      if (select.value) chosen[axis] = select.value.slice(1);
      else delete chosen[axis];
      for (const each of filtered) each();
    });
  }
}
bar.hidden = !bar.querySelector("select");
addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
addEventListener("keydown", event => { if (event.key === "Escape") replay.hidden = tip.hidden = true; });
