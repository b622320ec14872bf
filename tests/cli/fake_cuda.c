/* A stand-in for libcuda.so.1: device memory is host memory, work is done at once, an event is a time. One card, which is the
 * second one of fake_nvml.c, so that numbers of CUDA and NVML differ. */
#define _POSIX_C_SOURCE 199309L
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long address;

int cuInit(unsigned flags) { return flags ? 1 : getenv("FAKE_CUDA_BROKEN") ? 999 : 0; }
int cuDeviceGetCount(int *out) { *out = 1; return 0; }
int cuDeviceGet(int *out, int index) { *out = index; return 0; }
int cuDeviceGetUuid(unsigned char out[16], int device) {
    (void)device;
    memset(out, 0, 16);
    memset(out, 0x22, 4);
    return 0;
}
int cuDevicePrimaryCtxRetain(void **out, int device) { (void)device; *out = (void *)1; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return 0; }
int cuCtxSetCurrent(void *context) { return context ? 0 : 201; }
int cuCtxSynchronize(void) { return 0; }
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) { *free_bytes = 64u << 20; *total = 128u << 20; return 0; }
int cuMemAlloc_v2(address *out, size_t size) { *out = (address)malloc(size); return *out ? 0 : 2; }
int cuMemFree_v2(address at) { free((void *)at); return 0; }
int cuMemHostAlloc(void **out, size_t size, unsigned flags) { (void)flags; *out = malloc(size); return *out ? 0 : 2; }
int cuMemFreeHost(void *at) { free(at); return 0; }
int cuMemsetD8_v2(address at, unsigned char value, size_t size) { memset((void *)at, value, size); return 0; }
int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t size, void *stream) {
    (void)stream;
    memcpy((void *)to, from, size);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, address from, size_t size, void *stream) {
    (void)stream;
    memcpy(to, (void *)from, size);
    return 0;
}
int cuMemcpyDtoDAsync_v2(address to, address from, size_t size, void *stream) {
    (void)stream;
    memcpy((void *)to, (void *)from, size);
    return 0;
}
int cuEventCreate(void **out, unsigned flags) { (void)flags; *out = calloc(1, sizeof(struct timespec)); return 0; }
int cuEventRecord(void *event, void *stream) { (void)stream; return clock_gettime(CLOCK_MONOTONIC, event); }
int cuEventSynchronize(void *event) { return event ? 0 : 1; }
int cuEventElapsedTime(float *out, void *from, void *to) {
    struct timespec *a = from, *b = to;
    *out = (float)((b->tv_sec - a->tv_sec) * 1e3 + (b->tv_nsec - a->tv_nsec) / 1e6);
    return 0;
}
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuGetErrorName(int code, const char **out) { *out = code == 999 ? "CUDA_ERROR_UNKNOWN" : NULL; return 0; }

/* The same file stands in for libcublas.so.13: a product takes a millisecond, and fp64 is refused. */
int cublasCreate_v2(void **out) { *out = malloc(1); return 0; }
int cublasDestroy_v2(void *handle) { free(handle); return 0; }
int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, address a, int at, int lda,
                 address b, int bt, int ldb, const void *beta, address c, int ct, int ldc, int compute, int algorithm) {
    struct timespec pause = {0, 1000000};
    (void)handle, (void)lda, (void)ldb, (void)ldc, (void)compute;
    if (at == 1) return 15;
    if (ta || tb || m != n || n != k || !a || !b || !c || at != bt || at != ct || algorithm != -1) return 7;
    if (*(const float *)alpha != 1.0f || *(const float *)beta != 0.0f) return 7;
    nanosleep(&pause, NULL);
    return 0;
}
