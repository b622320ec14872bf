/* A stand-in for libnvidia-ml.so.1: one H200 whose state is files in the folder that FAKE_GPU names, so that a child
 * written in shell can play a training run. `used`: bytes of the device. `list`: lines of "pid bytes" (-1: the driver does
 * not say). `util`: percent. `accounts`: lines of "pid bytes", accounting mode is on. `lost`: the GPU has fallen off the
 * bus. `mig`: one instance, whose own memory is in `used`. `xid`: a fault to report once. Return codes as in nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; unsigned gi, ci; } process;
typedef struct { unsigned gpu, memory; } rates;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_device, subsystem; char id[32]; } pci;
typedef struct { unsigned gpu, memory; u64 most, time, start; unsigned running, reserved[5]; } accounts;
typedef struct { void *device; u64 type, data; unsigned gi, ci; } event;

#define OK 0
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT 7
#define TIMEOUT 10
#define LOST 15
#define GPU ((void *)1)
#define INSTANCE ((void *)2)
#define TOTAL 150754820096ULL

static FILE *state(const char *name) {
    char path[4096];
    const char *folder = getenv("FAKE_GPU");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
    return fopen(path, "r");
}
static int has(const char *name) {
    FILE *file = state(name);
    if (file) fclose(file);
    return file != NULL;
}
static u64 number(const char *name, u64 otherwise) {
    FILE *file = state(name);
    if (!file) return otherwise;
    if (fscanf(file, "%llu", &otherwise) != 1) otherwise = 0;
    fclose(file);
    return otherwise;
}

unsigned nvmlInit_v2(void) { return OK; }
unsigned nvmlInitWithFlags(unsigned flags) { (void)flags; return OK; }
unsigned nvmlShutdown(void) { return OK; }
unsigned nvmlSystemGetDriverVersion(char *out, unsigned room) { strncpy(out, "580.95.05", room); return OK; }
unsigned nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 13000; return OK; }
unsigned nvmlDeviceGetCount_v2(unsigned *out) { *out = 1; return OK; }
unsigned nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { (void)index; *out = GPU; return OK; }
unsigned nvmlDeviceGetName(void *device, char *out, unsigned room) {
    strncpy(out, device == GPU ? "NVIDIA H200" : "NVIDIA H200 MIG 1g.18gb", room);
    return OK;
}
unsigned nvmlDeviceGetUUID(void *device, char *out, unsigned room) {
    strncpy(out, device == GPU ? "GPU-11111111-0000-0000-0000-000000000000" : "MIG-22222222-0000-0000-0000-000000000000", room);
    return OK;
}
unsigned nvmlDeviceGetPciInfo_v3(void *device, pci *out) {
    (void)device;
    memset(out, 0, sizeof *out);
    strcpy(out->id, "00000000:01:00.0");
    out->pci_device = 0x233510de;
    return OK;
}
unsigned nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *next) {
    (void)device;
    *now = *next = has("mig");
    return OK;
}
unsigned nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *out) { (void)device; *out = 7; return OK; }
unsigned nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **out) {
    (void)device;
    *out = INSTANCE;
    return index == 3 ? OK : NOT_FOUND;
}
unsigned nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *device, void **out) { (void)device; *out = GPU; return OK; }
unsigned nvmlDeviceGetGpuInstanceId(void *device, unsigned *out) { *out = 5; return device == INSTANCE ? OK : NOT_SUPPORTED; }
unsigned nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *out) {
    if (has("lost")) return LOST;
    if (has("unified")) return NOT_SUPPORTED;
    out->total = device == GPU ? TOTAL : TOTAL / 8;
    out->reserved = 0;
    out->used = number("used", 1048576) + (device == GPU && has("mig") ? 7777777777ULL : 0);
    out->free = out->total - out->used;
    return OK;
}
unsigned nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *out) {
    unsigned n = 0, pid;
    long long used;
    FILE *file = state("list");
    (void)device;
    if (has("lost")) { if (file) fclose(file); return LOST; }
    while (file && fscanf(file, "%u %lld", &pid, &used) == 2) {
        if (n < *count) {
            out[n].pid = pid;
            out[n].used = (u64)used;
            out[n].gi = out[n].ci = 0xffffffffu;
        }
        n++;
    }
    if (file) fclose(file);
    if (n > *count) { *count = n; return INSUFFICIENT; }
    *count = n;
    return OK;
}
unsigned nvmlDeviceGetUtilizationRates(void *device, rates *out) {
    if (has("lost")) return LOST;
    if (device == INSTANCE) return NOT_SUPPORTED;
    out->gpu = (unsigned)number("util", 0);
    out->memory = 0;
    return OK;
}
unsigned nvmlDeviceGetAccountingMode(void *device, unsigned *out) { *out = device == GPU && has("accounts"); return OK; }
unsigned nvmlDeviceGetAccountingStats(void *device, unsigned pid, accounts *out) {
    unsigned one;
    u64 most;
    FILE *file = state("accounts");
    (void)device;
    memset(out, 0, sizeof *out);
    while (file && fscanf(file, "%u %llu", &one, &most) == 2) {
        if (one == pid) { out->most = most; fclose(file); return OK; }
    }
    if (file) fclose(file);
    return NOT_FOUND;
}
unsigned nvmlEventSetCreate(void **out) { *out = (void *)9; return OK; }
unsigned nvmlEventSetFree(void *set) { (void)set; return OK; }
unsigned nvmlDeviceGetSupportedEventTypes(void *device, u64 *out) { (void)device; *out = 8; return OK; }
unsigned nvmlDeviceRegisterEvents(void *device, u64 types, void *set) { (void)device; (void)types; (void)set; return OK; }
unsigned nvmlEventSetWait_v2(void *set, event *out, unsigned milliseconds) {
    static int told;
    (void)set;
    for (unsigned waited = 0; waited <= milliseconds; waited += 20) {
        if (!told && has("xid")) {
            told = 1;
            memset(out, 0, sizeof *out);
            out->device = GPU;
            out->type = 8;
            out->data = number("xid", 0);
            return OK;
        }
        usleep(20000);
    }
    return TIMEOUT;
}
