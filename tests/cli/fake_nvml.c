/* A stand-in for libnvidia-ml.so.1: two H200s whose answers are chosen by FAKE_NVML. -DOLD leaves out what drivers before
 * 510 did not have. Return codes as in nvml.h: 0 ok, 3 not supported, 4 no permission, 7 insufficient size. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned gpu, memory; } rates;
typedef struct {
    char legacy[16]; unsigned domain, bus, device, pci_device, subsystem; char id[32];
} pci;

static int is(const char *word) {
    const char *mode = getenv("FAKE_NVML");
    return mode && strstr(mode, word) != NULL;
}

static unsigned start(void) {
    const char *code = getenv("FAKE_NVML_INIT");
    return code ? (unsigned)atoi(code) : 0;
}

unsigned nvmlInit_v2(void) { return start(); }
unsigned nvmlInitWithFlags(unsigned flags) { (void)flags; return start(); }
unsigned nvmlShutdown(void) { return 0; }

unsigned nvmlSystemGetDriverVersion(char *out, unsigned room) {
    const char *version = getenv("FAKE_NVML_DRIVER");
    strncpy(out, version ? version : "580.95.05", room);
    return 0;
}
unsigned nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return 0; }
unsigned nvmlDeviceGetCount_v2(unsigned *out) { *out = is("none") ? 0 : 2; return 0; }

unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    if (is("lost") && index == 1) return 15;
    *out = (void *)(size_t)(index + 1);
    return 0;
}
unsigned nvmlDeviceGetName(void *device, char *out, unsigned room) {
    const char *first = is("mixed") && (size_t)device == 1 ? "NVIDIA H100 NVL" : "NVIDIA H200";
    strncpy(out, is("spark") ? "NVIDIA GB10" : first, room);
    return 0;
}
unsigned nvmlDeviceGetUUID(void *device, char *out, unsigned room) {
    strncpy(out, (size_t)device == 1 ? "GPU-11111111-0000-0000-0000-000000000000"
                                     : "GPU-22222222-0000-0000-0000-000000000000", room);
    return 0;
}
unsigned nvmlDeviceGetPciInfo_v3(void *device, pci *out) {
    memset(out, 0, sizeof *out);
    strcpy(out->id, (size_t)device == 1 ? "00000000:01:00.0" : "00000000:02:00.0");
    out->pci_device = 0x233510de;
    return 0;
}
unsigned nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    (void)device;
    *major = 9;
    *minor = 0;
    return 0;
}
unsigned nvmlDeviceGetNumGpuCores(void *device, unsigned *out) { (void)device; *out = 16896; return 0; }

unsigned nvmlDeviceGetMemoryInfo(void *device, memory_v1 *out) {
    (void)device;
    if (is("spark")) return 3;
    out->total = 150754820096ULL;
    out->used = 645922816ULL;
    out->free = out->total - out->used;
    return 0;
}
#ifndef OLD
unsigned nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *out) {
    (void)device;
    if (is("spark")) return 3;
    if (is("denied")) return 4;
    out->total = 150754820096ULL;
    out->reserved = 644874240ULL;
    out->used = 1048576ULL;
    out->free = out->total - out->reserved - out->used;
    return 0;
}
#endif

static unsigned processes(unsigned *count, process *out) {
    static time_t first;
    if (!first) first = time(NULL);
    /* `joined`: alone at first, then this process and another one. */
    unsigned n = is("crowd") ? 90 : is("joined") ? (time(NULL) - first < 2 ? 0 : 2) : is("alone") ? 0 : 1;
    if (*count < n) { *count = n; return 7; }
    for (unsigned i = 0; i < n; i++) {
        out[i].pid = 4000 + i;
        out[i].used = is("wsl") ? ~0ULL : 1048576ULL;
        out[i].gi = out[i].ci = 0xffffffffu;
    }
    *count = n;
    return 0;
}
#ifndef OLD
unsigned nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out) {
    (void)device;
    return processes(count, out);
}
#endif
unsigned nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, process *out) {
    (void)device;
    return processes(count, out);
}
unsigned nvmlDeviceGetUtilizationRates(void *device, rates *out) {
    (void)device;
    if (is("spark") || is("alone")) { out->gpu = 0; out->memory = 0; return 0; }
    out->gpu = 57;
    out->memory = 3;
    return 0;
}
unsigned nvmlDeviceGetPowerUsage(void *device, unsigned *out) { (void)device; *out = 121500; return 0; }

/* Clocks, link and slowdown of a card under load. */
unsigned nvmlDeviceGetClockInfo(void *device, unsigned type, unsigned *out) {
    (void)device;
    *out = type == 1 ? 1440 : 3201;
    return 0;
}
unsigned nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out) {
    (void)device;
    *out = is("alone") ? 4 : 1;
    return 0;
}
unsigned nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *out) { (void)device; *out = 4; return 0; }
unsigned nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *out) { (void)device; *out = 16; return 0; }
