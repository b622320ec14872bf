//! Matrix products through the cuBLAS that is already on the machine.
#![expect(unsafe_code, reason = "cuBLAS is a C library; each call passes pointers that live across it")]

use std::ffi::c_void;
use std::path::{Path, PathBuf};

use libloading::Library;

use super::cuda::DeviceBuffer;
use super::libraries_in;
use crate::gpu::bench::Task;
use crate::words::Message;

type Status = i32;
type Handle = *mut c_void;

// cublas_api.h, library_types.h, cublasLt.h.
const OP_N: i32 = 0;
const OP_T: i32 = 1;
const R_32F: i32 = 0;
const R_64F: i32 = 1;
const R_16F: i32 = 2;
const R_16BF: i32 = 14;
const R_8F_E4M3: i32 = 28;
const COMPUTE_32F: i32 = 68;
const COMPUTE_64F: i32 = 70;
const COMPUTE_32F_FAST_TF32: i32 = 77;
const ALGORITHM_DEFAULT: i32 = -1;
const DESC_TRANSA: i32 = 3;

type GemmEx = unsafe extern "C" fn(
    Handle,
    i32,
    i32,
    i32,
    i32,
    i32,
    *const c_void,
    u64,
    i32,
    i32,
    u64,
    i32,
    i32,
    *const c_void,
    u64,
    i32,
    i32,
    i32,
    i32,
) -> Status;
type LtMatmul = unsafe extern "C" fn(
    Handle,
    Handle,
    *const c_void,
    u64,
    Handle,
    u64,
    Handle,
    *const c_void,
    u64,
    Handle,
    u64,
    Handle,
    *const c_void,
    u64,
    usize,
    Handle,
) -> Status;
type Layout = unsafe extern "C" fn(*mut Handle, i32, u64, u64, i64) -> Status;

pub(super) struct Cublas {
    library: Library,
    /// fp8 goes through the light library only.
    light: Option<Library>,
    pub(super) path: String,
}

pub(super) struct Products<'l> {
    cublas: &'l Cublas,
    handle: Handle,
    gemm: GemmEx,
}

/// The folders in which wheels of PyTorch's CUDA keep the library, below a folder of Python packages.
const IN_PACKAGES: [&str; 4] = ["nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cublas/bin", "torch/lib"];
const IN_SYSTEM: [&str; 4] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/opt/conda/lib",
];

impl Cublas {
    pub(super) fn load(folders: &[PathBuf]) -> Result<Cublas, String> {
        let conda = std::env::var_os("CONDA_PREFIX").map(|prefix| PathBuf::from(prefix).join("lib"));
        let packaged = folders.iter().flat_map(|folder| IN_PACKAGES.map(|inside| folder.join(inside)));
        let system = IN_SYSTEM.iter().map(PathBuf::from);
        let files = packaged.chain(conda).chain(system).flat_map(|folder| libraries_in(&folder, "libcublas"));
        let named = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"].map(PathBuf::from);
        let mut why = Message::new("bench-no-cublas").to_string();
        for path in files.chain(named) {
            match Cublas::load_file(&path) {
                Ok(cublas) => return Ok(cublas),
                // A name that the loader does not know is no news; a file that does not load is.
                Err(error) if path.is_absolute() => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn load_file(path: &Path) -> Result<Cublas, String> {
        // The light library first: the other one needs it, and wheels of some versions do not say where it lies.
        let beside = path.parent().filter(|folder| folder.is_absolute());
        let light = beside.map_or_else(Vec::new, |folder| libraries_in(folder, "libcublasLt"));
        // SAFETY: loading runs the libraries' initializers, as every program that uses them does.
        unsafe {
            let light = light.iter().find_map(|path| Library::new(path).ok());
            let library = Library::new(path).map_err(|error| error.to_string())?;
            Ok(Cublas { library, light, path: path.display().to_string() })
        }
    }

    pub(super) fn handle(&self) -> Result<Products<'_>, String> {
        // SAFETY: the signatures are those of cublas_v2.h.
        unsafe {
            let create: libloading::Symbol<'_, unsafe extern "C" fn(*mut Handle) -> Status> =
                self.library.get(b"cublasCreate_v2\0").map_err(|error| error.to_string())?;
            let gemm = *self.library.get::<GemmEx>(b"cublasGemmEx\0").map_err(|error| error.to_string())?;
            let mut handle = std::ptr::null_mut();
            check(create(&raw mut handle))?;
            Ok(Products { cublas: self, handle, gemm })
        }
    }
}

fn check(status: Status) -> Result<(), String> {
    if status == 0 {
        return Ok(());
    }
    Err(Message::new("bench-cublas-error").with("status", status.to_string()).to_string())
}

impl Products<'_> {
    /// C = A x B, all `n` by `n`, queued on the default stream.
    pub(super) fn product(
        &self,
        task: Task,
        n: u64,
        a: &DeviceBuffer<'_>,
        b: &DeviceBuffer<'_>,
        c: &DeviceBuffer<'_>,
        workspace: &DeviceBuffer<'_>,
    ) -> Result<(), String> {
        let (kind, compute) = match task {
            Task::Fp64 => (R_64F, COMPUTE_64F),
            Task::Tf32 => (R_32F, COMPUTE_32F_FAST_TF32),
            Task::Fp16 => (R_16F, COMPUTE_32F),
            Task::Bf16 => (R_16BF, COMPUTE_32F),
            Task::Fp8 => return self.light_product(n, a, b, c, workspace),
            _ => (R_32F, COMPUTE_32F),
        };
        let edge = i32::try_from(n).map_err(|error| error.to_string())?;
        let (one, zero) = (Scalar::new(task, 1.0), Scalar::new(task, 0.0));
        // SAFETY: three buffers of n x n elements of `kind`; the scalars are read during the call (host pointer mode).
        check(unsafe {
            (self.gemm)(
                self.handle,
                OP_N,
                OP_N,
                edge,
                edge,
                edge,
                one.pointer(),
                a.address,
                kind,
                edge,
                b.address,
                kind,
                edge,
                zero.pointer(),
                c.address,
                kind,
                edge,
                compute,
                ALGORITHM_DEFAULT,
            )
        })
    }

    /// fp8: A transposed, result in bf16, as the hardware wants it.
    fn light_product(
        &self,
        n: u64,
        a: &DeviceBuffer<'_>,
        b: &DeviceBuffer<'_>,
        c: &DeviceBuffer<'_>,
        workspace: &DeviceBuffer<'_>,
    ) -> Result<(), String> {
        let library =
            self.cublas.light.as_ref().ok_or_else(|| Message::new("bench-no-cublaslt").to_string())?;
        // SAFETY: the signatures are those of cublasLt.h; every object made here is destroyed before the function ends, which
        // is allowed once the product is queued; the scalars are read during the call.
        unsafe {
            let get = |name: &[u8]| -> Result<*const c_void, String> {
                let symbol =
                    library.get::<unsafe extern "C" fn()>(name).map_err(|error| error.to_string())?;
                Ok(*symbol as *const c_void)
            };
            let desc_create: unsafe extern "C" fn(*mut Handle, i32, i32) -> Status =
                std::mem::transmute(get(b"cublasLtMatmulDescCreate\0")?);
            let desc_set: unsafe extern "C" fn(Handle, i32, *const c_void, usize) -> Status =
                std::mem::transmute(get(b"cublasLtMatmulDescSetAttribute\0")?);
            let desc_drop: unsafe extern "C" fn(Handle) -> Status =
                std::mem::transmute(get(b"cublasLtMatmulDescDestroy\0")?);
            let layout: Layout = std::mem::transmute(get(b"cublasLtMatrixLayoutCreate\0")?);
            let layout_drop: unsafe extern "C" fn(Handle) -> Status =
                std::mem::transmute(get(b"cublasLtMatrixLayoutDestroy\0")?);
            let matmul: LtMatmul = std::mem::transmute(get(b"cublasLtMatmul\0")?);

            let ld = i64::try_from(n).map_err(|error| error.to_string())?;
            let transposed = OP_T;
            let (mut desc, mut input, mut output) =
                (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
            check(desc_create(&raw mut desc, COMPUTE_32F, R_32F))?;
            let result = check(desc_set(desc, DESC_TRANSA, (&raw const transposed).cast(), size_of::<i32>()))
                .and_then(|()| check(layout(&raw mut input, R_8F_E4M3, n, n, ld)))
                .and_then(|()| check(layout(&raw mut output, R_16BF, n, n, ld)))
                .and_then(|()| {
                    let (one, zero) = (1.0_f32, 0.0_f32);
                    // A handle of cuBLAS is also one of the light library (cublasLt.h). No algorithm: it picks one itself.
                    check(matmul(
                        self.handle,
                        desc,
                        (&raw const one).cast(),
                        a.address,
                        input,
                        b.address,
                        input,
                        (&raw const zero).cast(),
                        c.address,
                        output,
                        c.address,
                        output,
                        std::ptr::null(),
                        workspace.address,
                        workspace.size as usize,
                        std::ptr::null_mut(),
                    ))
                });
            for made in [input, output] {
                if !made.is_null() {
                    layout_drop(made);
                }
            }
            desc_drop(desc);
            result
        }
    }
}

impl Drop for Products<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `handle`, destroyed once.
        unsafe {
            if let Ok(destroy) =
                self.cublas.library.get::<unsafe extern "C" fn(Handle) -> Status>(b"cublasDestroy_v2\0")
            {
                destroy(self.handle);
            }
        }
    }
}

/// Factors have the type of the computation.
enum Scalar {
    Single(f32),
    Double(f64),
}

impl Scalar {
    fn new(task: Task, value: f32) -> Scalar {
        if task == Task::Fp64 { Scalar::Double(f64::from(value)) } else { Scalar::Single(value) }
    }

    fn pointer(&self) -> *const c_void {
        match self {
            Scalar::Single(value) => (&raw const *value).cast(),
            Scalar::Double(value) => (&raw const *value).cast(),
        }
    }
}
