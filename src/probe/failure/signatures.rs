//! The signatures: one row for each wording of a failure. A failure seen in the wild is a further row.
//!
//! Rows are tried in order and the first that matches a line names its kind, so the special stands before the general:
//! a full `/dev/shm` before a full disk, a load policy before a damaged file.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::RegexSet;

use super::FailureKind::{
    self, AttentionUnsupportedGpu, CheckpointCorrupt, CheckpointLoadPolicy, ContainerLostGpu, CpuFallback,
    DeviceAssert, DeviceBusy, DiskFull, DriverLibraryMismatch, DriverTooOld, ExtensionAbiMismatch,
    GpuHardwareFault, GpuOom, HostOom, IllegalMemoryAccess, KernelSharedMemoryLimit, KvCacheNoRoom, NanLoss,
    NcclError, NoKernelImage, QuantLibraryNoGpu, ShmExhausted, TerminatedBySignal, TorchCpuBuild,
};

/// Where in a line the words must stand to count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Only as the message of an exception, or at the head of a line; elsewhere they may be quoted text.
    Thrown,
    /// Nobody writes this but the program that failed.
    Anywhere,
}

/// What the line is evidence of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Cause,
    /// Names a symptom that several causes have.
    Symptom,
    /// One GPU's complaint about another, which may have failed for a reason of its own.
    Peer,
    /// A launcher or another rank speaking of a process that has already failed.
    Consequence,
}

#[derive(Debug)]
pub(super) struct Signature {
    pub(super) kind: FailureKind,
    pub(super) pattern: &'static str,
    pub(super) place: Place,
    pub(super) rank: Rank,
    pub(super) advice: &'static str,
    /// Counts though the command ended well: it says that the GPU was not used.
    pub(super) silent: bool,
}

impl Signature {
    pub(super) fn is_gpu_oom(&self) -> bool {
        matches!(self.kind, GpuOom | KvCacheNoRoom)
    }
}

const fn row(
    kind: FailureKind,
    place: Place,
    rank: Rank,
    advice: &'static str,
    pattern: &'static str,
) -> Signature {
    Signature { kind, pattern, place, rank, advice, silent: false }
}

const fn thrown(kind: FailureKind, advice: &'static str, pattern: &'static str) -> Signature {
    row(kind, Place::Thrown, Rank::Cause, advice, pattern)
}

const fn anywhere(kind: FailureKind, advice: &'static str, pattern: &'static str) -> Signature {
    row(kind, Place::Anywhere, Rank::Cause, advice, pattern)
}

const fn silent(kind: FailureKind, advice: &'static str, pattern: &'static str) -> Signature {
    Signature { kind, pattern, place: Place::Anywhere, rank: Rank::Symptom, advice, silent: true }
}

use Place::{Anywhere, Thrown};
use Rank::{Consequence, Peer, Symptom};

#[rustfmt::skip]
pub(super) const SIGNATURES: &[Signature] = &[
    // The KV cache of a server
    anywhere(KvCacheNoRoom, "raise_gpu_memory_utilization_or_smaller_model", r"No available memory for the cache blocks"),
    anywhere(KvCacheNoRoom, "raise_gpu_memory_utilization_or_smaller_model", r"max seq(?:uence)? len.{0,40}is larger than the (?:maximum number of tokens|available KV cache)"),
    anywhere(KvCacheNoRoom, "raise_gpu_memory_utilization_or_smaller_model", r"KV cache is needed, which is larger than the available KV cache memory"),
    anywhere(KvCacheNoRoom, "raise_gpu_memory_utilization_or_smaller_model", r"Not enough memory\. Please try to increase --mem-fraction-static"),
    anywhere(GpuOom, "gpu_shared_with_other_process", r"Free memory on device .{0,60}is less than desired GPU memory utilization"),

    // On-chip memory of one kernel
    anywhere(KernelSharedMemoryLimit, "kernel_block_size", r"out of resources?: (?:shared memory|tensor memory|threads)"),
    anywhere(KernelSharedMemoryLimit, "kernel_block_size", r"OutOfResources(?:Error)?\b"),
    anywhere(KernelSharedMemoryLimit, "kernel_block_size", r"uses too much shared data"),
    thrown(KernelSharedMemoryLimit, "kernel_block_size", r"too many resources requested for launch|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    thrown(KernelSharedMemoryLimit, "kernel_block_size", r"(?i)(?:dynamic )?shared memory (?:size|usage)?.{0,40}exceeds? .{0,30}(?:limit|maximum|available)"),

    // Shared memory between processes
    anywhere(ShmExhausted, "raise_shm_or_fewer_workers", r"(?i)unexpected bus error encountered in worker|is killed by signal: Bus error|out of shared memory|insufficient shared memory"),
    anywhere(ShmExhausted, "raise_shm_or_fewer_workers", r"(?:unable to (?:write|allocate|resize|mmap|open).{0,40}|No space left on device.{0,40}|fallocate.{0,40}|Error while (?:creating|attaching to) shared memory segment.{0,10})(?:/dev/shm|</?torch_\d|/torch_\d)"),
    anywhere(ShmExhausted, "raise_shm_or_fewer_workers", r"/dev/shm.{0,120}(?:No space left|fallocate failed|Bus error)"),
    row(ShmExhausted, Thrown, Symptom, "raise_shm_or_fewer_workers", r"^Bus error(?: \(core dumped\))?|died with <Signals\.SIGBUS|exitcode: -7\b"),

    // The host's memory
    anywhere(HostOom, "raise_job_memory", r"(?i)slurmstepd: error:.{0,40}(?:oom[-_]kill event|Exceeded (?:job|step) memory limit)|Exceeded job memory limit at some point"),
    anywhere(HostOom, "raise_job_memory", r"(?i)memory cgroup out of memory|OOMKilled|oom_kill_process|oom-kill:constraint=CONSTRAINT_MEMCG|TERM_MEMLIMIT|job killed: (?:vmem|mem)|PBS: job killed: (?:mem|vmem)"),
    anywhere(HostOom, "reduce_host_memory", r"Out of memory: Kill(?:ed)? process|oom-kill:constraint|oom_reaper: reaped process|invoked oom-killer"),
    anywhere(HostOom, "reduce_host_memory", r"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\) (?:is killed by signal: Killed|exited unexpectedly.{0,40}Killed)"),
    anywhere(HostOom, "reduce_host_memory", r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|enforce fail at alloc_cpu|\[enforce fail at CPUAllocator"),
    anywhere(HostOom, "reduce_host_memory", r"running low on memory|killed due to memory pressure|ray\.exceptions\.OutOfMemoryError"),
    thrown(HostOom, "reduce_host_memory", r"(?:^|\W)(?:_?ArrayMemoryError|MemoryError)\b|Unable to allocate [\d.]+ [KMGT]iB for an array|std::bad_alloc"),
    thrown(HostOom, "reduce_host_memory", r"(?:\[Errno 12\]|Os \{ code: 12|errno: 12|os error 12|mmap|fork|unable to mmap).{0,80}Cannot allocate memory|Cannot allocate memory \(12\)"),
    thrown(HostOom, "reduce_host_memory", r"cudaHostAlloc.{0,60}out of memory|cudaErrorHostMemory"),
    row(HostOom, Anywhere, Symptom, "reduce_host_memory", r"(?:exitcode|exit code|exit status|return ?code|returned non-zero exit status)[:= ]*-9\b|died with <Signals\.SIGKILL|Signal 9 \(SIGKILL\)|signal 9 \(Killed\)|terminated (?:by|with) signal(?: 9|:? ?SIGKILL)|SIGKILL\(-9\)"),
    row(HostOom, Thrown, Symptom, "reduce_host_memory", r"^\S{0,60}:? ?(?:line \d+: *\d+ )?Killed(?: {2,}.*)?$"),

    // The disk
    anywhere(DiskFull, "free_disk_or_save_total_limit", r"No space left on device|StorageFull|\[Errno 28\]|ENOSPC|Disk quota exceeded|\[Errno 122\]|EDQUOT|There is not enough space on the disk"),
    thrown(DiskFull, "free_disk_or_save_total_limit", r"PytorchStreamWriter failed writing|inline_container\.cc.{0,60}(?:file write failed|unexpected pos)|(?i:database or disk is full)|not sufficient space|insufficient disk space"),

    // Reading a checkpoint back
    anywhere(CheckpointLoadPolicy, "torch26_weights_only", r"Weights only load failed|WeightsUnpickler error|was not an allowed global by default|weights_only=False.{0,80}trust"),
    anywhere(CheckpointLoadPolicy, "torch26_weights_only", r"serious vulnerability issue in `?torch\.load|require users to upgrade torch to at least v2\.6"),
    anywhere(CheckpointCorrupt, "use_previous_checkpoint", r"failed finding central directory|PytorchStreamReader failed|invalid header or archive is corrupted|file in archive is not in a subdirectory|The file might be corrupted"),
    anywhere(CheckpointCorrupt, "download_or_use_previous", r"MetadataIncompleteBuffer|HeaderTooLarge|HeaderTooSmall|InvalidHeader|[Ee]rror while deserializing header|incomplete metadata, file not fully covered"),
    thrown(CheckpointCorrupt, "use_previous_checkpoint", r"pickle data was truncated|Ran out of input|unexpected EOF, expected \d+ more bytes|storage has wrong byte size|BadZipFile|not a zip file|zlib\.error|unpickling stack underflow"),
    thrown(CheckpointCorrupt, "download_or_use_previous", r"invalid load key|Unable to load weights from (?:the )?(?:pytorch )?checkpoint|it is a git-?lfs pointer|you don't have git-lfs installed"),
    thrown(CheckpointCorrupt, "use_previous_checkpoint", r"truncated file: eof = \d+|bad object header|file signature not found|(?:Checksum|CRC) does not match|DataLossError|Data loss: |Unable to open (?:table )?file.{0,60}(?:data loss|not an sstable)|checkpoint .{0,80}(?:is|was|may be|seems) corrupt"),

    // The loss
    anywhere(NanLoss, "bf16_or_lower_lr", r"(?i)loss (?:is|became|has become|was|are|turned) (?:nan|inf|infinite|infinity|not finite|non-?finite)\b|(?:^|\W)(?:nan|inf|infinite|non-?finite|invalid) loss(?:es)?(?: (?:during|detected|encountered|found|at|in)|, (?:stopping|terminating|aborting|exit))"),
    anywhere(NanLoss, "bf16_or_lower_lr", r"(?i)minimum loss scale reached|loss scale already at minimum|loss became infinite or nan|training has diverged|model diverged with loss"),
    anywhere(NanLoss, "bf16_or_lower_lr", r"NaN loss during training|Loss is (?:nan|inf), stopping training|Monitored metric .{0,60}= (?:nan|inf|-inf) is not finite|found NaN in local grad norm|Function '\w+Backward\d*' returned nan values in its \d+th output|The loss returned in `?training_step`? is (?:nan|inf)"),

    // Drivers and builds
    anywhere(DriverLibraryMismatch, "reboot_or_reload_driver", r"(?i)driver/library version mismatch|NVML_ERROR_LIB_RM_VERSION_MISMATCH|forward compatibility was attempted on non supported HW|system has unsupported display driver ?/ ?cuda driver combination|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|API mismatch: the client"),
    anywhere(DriverTooOld, "install_torch_for_older_cuda", r"CUDA driver version is insufficient for CUDA runtime|cudaErrorInsufficientDriver|NVIDIA driver on your system is too old|unsatisfied condition: cuda ?>=?|CUDA_ERROR_UNSUPPORTED_PTX_VERSION|PTX was compiled with an unsupported toolchain|driver (?:version )?\S* ?(?:is|does not) (?:too old|support the (?:CUDA|runtime))"),
    anywhere(ContainerLostGpu, "restart_container", r"Failed to initialize NVML: Unknown Error|NVMLError_Unknown|Failed to initialize NVML: Insufficient Permissions"),
    thrown(ContainerLostGpu, "gpu_not_visible", r"no CUDA-capable device is detected|No CUDA GPUs are available|Found no NVIDIA driver on your system|CUDA_ERROR_NO_DEVICE|could not select device driver .{0,20}capabilities: \[\[gpu\]\]|nvidia-container-cli: (?:initialization error|device error)"),
    anywhere(TorchCpuBuild, "install_cuda_torch", r"not compiled with CUDA (?:enabled|support)|PyTorch was (?:compiled|built) without CUDA|Torch not compiled with CUDA|but torch\.cuda\.is_available\(\) is False"),
    anywhere(QuantLibraryNoGpu, "bitsandbytes_cuda_build", r"(?i)CUDA Setup failed despite|Could not find the bitsandbytes CUDA binary|bitsandbytes was compiled without GPU support|libbitsandbytes_cpu\S*: undefined symbol|bitsandbytes_cuda\S*: cannot open|name 'str2optimizer|bitsandbytes\W.{0,60}(?:requires|not available|no GPU|without GPU|CUDA is not available|compiled without)|Configured (?:CUDA|ROCm) binary not found|CUDA extension not installed|GPU is needed for quantization"),
    anywhere(ExtensionAbiMismatch, "rebuild_extension", r"undefined symbol: _Z|\.so[\d.]*: undefined symbol|version `(?:GLIBCXX|CXXABI|GLIBC)_[\d.]+' not found|mismatches the version that was used to compile|compiled with different CUDA (?:major )?versions|compiled against (?:ABI|API) version|numpy\.dtype size changed|operator torchvision::nms does not exist|different .{0,20}versions of CUDA|symbol not found in flat namespace"),
    anywhere(ExtensionAbiMismatch, "rebuild_extension", r"lib(?:cudart|cublas\w*|cudnn\w*|nvrtc|cusparse\w*|nvJitLink|cufft|c10\w*|torch\w*)\.so[\d.]*: cannot open shared object file|DLL load failed while importing"),
    anywhere(NoKernelImage, "install_newer_torch_build", r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU|named symbol not found.{0,40}kernel|cudaErrorNoKernelImageForDevice|is not a supported gpu architecture|Unsupported gpu architecture"),
    anywhere(AttentionUnsupportedGpu, "use_sdpa_or_eager", r"FlashAttention(?:-\d)? (?:only supports|forward only supports|requires) (?:Ampere|Hopper|Turing|GPUs?|sm|NVIDIA|CUDA)|[Ff]lash ?[Aa]ttention.{0,60}(?:Volta|Turing|compute capability|requires device)|requires device with capability >|FlashAttention backward for head dim > \d+ requires|No operator found for `memory_efficient_attention|Cannot use FlashAttention"),
    row(AttentionUnsupportedGpu, Thrown, Rank::Cause, "use_sdpa_or_eager", r"No available kernel\.? *Aborting execution"),
    anywhere(DeviceBusy, "free_exclusive_gpu", r"CUDA-capable device\(s\) is/are busy or unavailable|all CUDA-capable devices are busy|cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE|exclusive[ -](?:process|thread)? ?mode.{0,60}(?:in use|busy)"),

    // The GPU's memory
    anywhere(GpuOom, "reduce_memory", r"(?:CUDA|HIP|XPU) out of memory\. Tried to allocate [\d.]+ [KMGT]?i?B|MPS backend out of memory"),
    anywhere(GpuOom, "reduce_memory", r"OOM when allocating tensor with shape.{0,200}(?:GPU:\d+|GPU_\d+_bfc)"),
    anywhere(GpuOom, "reduce_memory", r"Allocator \(GPU_\d+_bfc\) ran out of memory"),
    anywhere(GpuOom, "reduce_memory", r"RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate request|Error allocating device buffer)|Out of memory (?:while trying to allocate|allocating) \d+ bytes|CUDA_ERROR_OUT_OF_MEMORY"),
    anywhere(GpuOom, "reduce_memory", r"Cuda failure (?:\d+ )?'out of memory'|cudaErrorMemoryAllocation|cudaMalloc (?:retry )?failed: out of memory|CUDA error \d* ?at .{0,120}out of memory|Paddle.{0,20}Out of memory error on GPU|ResourceExhaustedError: ?$"),
    anywhere(GpuOom, "reduce_memory", r"Out of memory error on GPU \d+\. Cannot allocate"),
    thrown(GpuOom, "reduce_memory", r"CUDA out of memory|CUDA error: out of memory|cuda runtime error \(2\)|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|Triton Error \[CUDA\]: out of memory|cupy\S*OutOfMemoryError|out of memory to allocate|cublasStatus.{0,20}ALLOC_FAILED|CUDA OOM|GPU out of memory"),

    // Faults of hardware before the errors that follow from them
    anywhere(GpuHardwareFault, "hardware_or_provider", r"NVRM: Xid|\bXid \(PCI|GPU has fallen off the bus|uncorrectable (?:ECC|NVLink) error|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable|GPU is lost|GPU_IS_LOST|GPU requires reset|Unable to determine the device handle for [Gg][Pp][Uu]|hardware error.{0,20}GPU|CUDA_ERROR_HARDWARE_STACK_ERROR|CUDA error: hardware stack error"),

    // Kernels
    anywhere(DeviceAssert, "device_assert", r"\.cuh?:\d+: .{0,400}Assertion `.{0,200}failed"),
    thrown(DeviceAssert, "device_assert", r"device-side assert triggered|CUDA_ERROR_ASSERT|cudaErrorAssert"),
    anywhere(IllegalMemoryAccess, "kernel_bug_or_index", r"an illegal memory access was encountered|CUDA_ERROR_ILLEGAL_ADDRESS|cudaErrorIllegalAddress|Warp Illegal Address|CUDA_ERROR_MISALIGNED_ADDRESS"),
    thrown(IllegalMemoryAccess, "kernel_bug_or_index", r"misaligned address|an illegal instruction was encountered|invalid program counter|invalid device pointer|CUBLAS_STATUS_MAPPING_ERROR"),
    row(IllegalMemoryAccess, Thrown, Symptom, "kernel_bug_or_index", r"unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED|CUBLAS_STATUS_EXECUTION_FAILED|CUDNN_STATUS_EXECUTION_FAILED|CUBLAS_STATUS_INTERNAL_ERROR"),
    row(GpuOom, Thrown, Symptom, "reduce_memory", r"CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED|CUSOLVER_STATUS_NOT_INITIALIZED|failed to create cublas handle|Failed to get convolution algorithm"),

    // Between GPUs
    row(NcclError, Anywhere, Peer, "check_nccl", r"(?i:nccl (?:error|failure)|nccl communicator was aborted|NCCL operations have failed or timed out|NCCL WARN (?:Call to|Net))|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidUsage|ncclInvalidArgument|ncclRemoteError|DistBackendError|Watchdog caught collective operation timeout|Timeout waiting for key: |\[Rank \d+\] Watchdog|Duplicate GPU detected|torch\.distributed\.DistNetworkError|Connection closed by peer \[|gloo/transport/tcp"),

    // Signals
    anywhere(TerminatedBySignal, "time_limit", r"DUE TO TIME LIMIT|TERM_RUNLIMIT|walltime \d+ exceeded|job killed: walltime"),
    anywhere(TerminatedBySignal, "resume_from_checkpoint", r"slurmstepd: error: \*\*\* (?:JOB|STEP) .{0,80}CANCELLED|DUE TO PREEMPTION|DUE TO NODE FAILURE"),
    row(TerminatedBySignal, Thrown, Symptom, "native_crash", r"^\S{0,60}:? ?(?:line \d+: *\d+ )?Segmentation fault|Fatal Python error: (?:Segmentation fault|Aborted)|died with <Signals\.(?:SIGSEGV|SIGABRT)|exitcode: -(?:11|6)\b|Signal (?:11|6) \((?:SIGSEGV|SIGABRT)\)"),
    row(TerminatedBySignal, Anywhere, Consequence, "resume_from_checkpoint", r"SignalException: Process \d+ got signal: \d+|exitcode: -15\b|Signal 15 \(SIGTERM\)|died with <Signals\.SIGTERM"),
    row(TerminatedBySignal, Thrown, Consequence, "interrupted", r"^(?:\S+ ?)?KeyboardInterrupt\b"),

    // The GPU stood idle
    silent(CpuFallback, "use_the_gpu", r"(?i)falling back to (?:the )?cpu|cuda (?:is )?not available[,.;:]? .{0,40}(?:cpu|training)|no gpu(?:/tpu)?(?:s)? (?:found|detected|available)|GPU available: False|GPU will not be used|(?:using|running on|training on|use) (?:the )?(?:device:? ?)?[`'\x22]?cpu\b|device(?: is| type)?\s*[:=]\s*[`'\x22]?cpu\b|could not find cuda drivers on your machine|CUDA-enabled jaxlib is not installed|Cannot dlopen some GPU libraries|Can't initialize NVML|CUDA initialization: (?:CUDA unknown error|The NVIDIA driver|Found no NVIDIA|Unexpected error)|未检测到(?:GPU|显卡)|使用 ?CPU ?训练"),
];

/// A line without any of these matches no row.
static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build([
            "error",
            "exception",
            "killed",
            "out of memory",
            "oom",
            "xid",
            "nvml",
            "no space left",
            "quota",
            "interrupt",
            "cuda",
            "nccl",
            "signal",
            "corrupt",
            "truncated",
            "bus error",
            "cancelled",
            "segmentation",
            "aborted",
            "xpu out",
            "undefined symbol",
            "allocate",
            "bad_alloc",
            "bitsandbytes",
            "flashattention",
            "flash",
            "falling back",
            "hip out",
            "cpu",
            "capability",
            "total allocation",
            "exitcode",
            "exit code",
            "traceback",
            "file \"",
            "assert",
            "weights only",
            "glibcxx",
            "loss scale",
            "loss is",
            "loss became",
            "nan",
            "non-finite",
            "infinite",
            "diverged",
            "out of resource",
            "shared memory",
            "shared data",
            "cache",
            "memory",
            "no gpu",
            "gpu",
            "failed",
            "limit",
            "driver",
            "fatal",
            "storagefull",
            "enospc",
            "kernel",
            "operator",
            "vulnerability",
            "git-lfs",
            "mismatch",
            "symbol",
            "version `",
            "invalid",
            "not enough space",
            "sufficient",
            "load key",
            "archive",
            "zip",
            "ran out",
            "preemption",
            "exceeded",
            "使用",
            "未检测",
        ])
        .expect("constant words")
});

static ROWS: LazyLock<RegexSet> = LazyLock::new(|| {
    regex::RegexSetBuilder::new(SIGNATURES.iter().map(|s| s.pattern))
        .size_limit(64 << 20)
        .dfa_size_limit(16 << 20)
        .build()
        .expect("constant patterns")
});

pub(super) fn may_matter(bytes: &[u8]) -> bool {
    WORDS.is_match(bytes)
}

/// The row that `text` matches.
pub(super) fn find(text: &str) -> Option<&'static Signature> {
    ROWS.matches(text).iter().next().map(|index| &SIGNATURES[index])
}

#[cfg(test)]
mod tests {
    use super::SIGNATURES;

    #[test]
    fn each_row_compiles_and_its_advice_is_worded() {
        for row in SIGNATURES {
            assert!(regex::Regex::new(row.pattern).is_ok(), "{}", row.pattern);
            let advice = super::super::advice_text(row.advice);
            assert!(advice.is_worded(crate::words::Lang::En), "{}", row.advice);
        }
    }
}
