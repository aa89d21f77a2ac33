/* A stochastic SIR epidemic, simulated exactly (Gillespie 1976): sir BETA GAMMA POPULATION SEED writes days.csv.

   An infected person infects others at the rate BETA * susceptible / POPULATION, and recovers at the rate GAMMA. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DAYS 200

static uint64_t state;

/* A number in (0, 1] from splitmix64 */
static double draw(void) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return (double)(((z ^ (z >> 31)) >> 11) + 1) / 9007199254740992.0;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: sir BETA GAMMA POPULATION SEED\n");
        return 2;
    }
    double beta = atof(argv[1]), gamma = atof(argv[2]), time = 0;
    long population = atol(argv[3]), infected = 5, recovered = 0;
    state = strtoull(argv[4], NULL, 10);
    FILE *file = fopen("days.csv", "w");
    if (file == NULL || population < infected || beta < 0 || gamma <= 0) {
        fprintf(stderr, "days.csv cannot be written, or a parameter has no meaning\n");
        return 1;
    }
    fprintf(file, "day,infected,recovered\n");
    for (int day = 0; day <= DAYS; day++) {
        for (;;) {
            long susceptible = population - infected - recovered;
            double infection = beta * susceptible * infected / population, recovery = gamma * infected;
            double next = infected ? time - log(draw()) / (infection + recovery) : INFINITY;
            if (next > day) {
                time = infected ? day : time; /* waiting times have no memory */
                break;
            }
            time = next;
            if (draw() * (infection + recovery) <= infection) {
                infected++;
            } else {
                infected--;
                recovered++;
            }
        }
        fprintf(file, "%d,%ld,%ld\n", day, infected, recovered);
    }
    return fclose(file);
}
