/* Descent on a parabola with noise, in C: loop OUT [order] [all]. Its state is a file of numbers, written aside and
   renamed; `order` does not take the generator from it when it resumes, `all` takes nothing. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned long long state = 88172645463325252ULL;

static double draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

int main(int count, char **words) {
    char path[4096], part[4096];
    int order = 1, all = 0;
    if (count < 2) return 2;
    for (int at = 2; at < count; at++) {
        if (!strcmp(words[at], "order")) order = 0;
        if (!strcmp(words[at], "all")) all = 1;
    }
    snprintf(path, sizeof path, "%s/state.dat", words[1]);
    snprintf(part, sizeof part, "%s/state.dat.part", words[1]);
    double x = 4.0;
    int first = 0;
    unsigned long long kept = state;
    FILE *file = all ? NULL : fopen(path, "r");
    if (file) {
        if (fscanf(file, "%d %lf %llu", &first, &x, &kept) != 3) return 1;
        fclose(file);
        if (order) state = kept;
    }
    for (int step = first + 1; step <= 400; step++) {
        double noise = draw() - 0.5;
        double gradient = x + noise;
        printf("step %d/400 loss %.9f\n", step, gradient * gradient);
        fflush(stdout);
        x -= 0.01 * gradient;
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        if (step % 30 == 0) {
            file = fopen(part, "w");
            if (!file) return 1;
            fprintf(file, "%d %.17g %llu\n", step, x, state);
            fflush(file);
            fsync(fileno(file));
            fclose(file);
            if (rename(part, path)) return 1;
        }
    }
    return 0;
}
