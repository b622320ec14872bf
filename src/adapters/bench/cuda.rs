//! The few calls of the driver library (libcuda) that a measurement needs, loaded at run time.
#![expect(unsafe_code, reason = "libcuda is a C library; each call passes pointers that live across it")]

use std::ffi::{CStr, c_char, c_void};
use std::time::Instant;

use libloading::Library;

use crate::words::Message;

type Code = i32;
type Handle = *mut c_void;

/// `CUDA_SUCCESS`.
const OK: Code = 0;

macro_rules! calls {
    ($($name:ident = $symbol:literal ($($arg:ty),*);)*) => {
        struct Calls { $($name: unsafe extern "C" fn($($arg),*) -> Code,)* }

        impl Calls {
            fn of(library: &Library) -> Result<Calls, String> {
                // SAFETY: the signatures are those of cuda.h for these versioned symbols.
                unsafe {
                    Ok(Calls { $($name: *library.get(concat!($symbol, "\0").as_bytes()).map_err(|e| e.to_string())?,)* })
                }
            }
        }
    };
}

calls! {
    init = "cuInit" (u32);
    count = "cuDeviceGetCount" (*mut i32);
    device = "cuDeviceGet" (*mut i32, i32);
    uuid = "cuDeviceGetUuid" (*mut [u8; 16], i32);
    retain = "cuDevicePrimaryCtxRetain" (*mut Handle, i32);
    release = "cuDevicePrimaryCtxRelease_v2" (i32);
    set_current = "cuCtxSetCurrent" (Handle);
    synchronize = "cuCtxSynchronize" ();
    memory = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    alloc = "cuMemAlloc_v2" (*mut u64, usize);
    free = "cuMemFree_v2" (u64);
    alloc_host = "cuMemHostAlloc" (*mut Handle, usize, u32);
    free_host = "cuMemFreeHost" (Handle);
    set_bytes = "cuMemsetD8_v2" (u64, u8, usize);
    up = "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle);
    down = "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle);
    across = "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Handle);
    event = "cuEventCreate" (*mut Handle, u32);
    record = "cuEventRecord" (Handle, Handle);
    wait = "cuEventSynchronize" (Handle);
    elapsed = "cuEventElapsedTime" (*mut f32, Handle, Handle);
    drop_event = "cuEventDestroy_v2" (Handle);
    error_name = "cuGetErrorName" (Code, *mut *const c_char);
}

pub(super) struct Cuda {
    calls: Calls,
    /// Keeps the symbols valid.
    _library: Library,
}

/// A context on one card; given back when dropped.
pub(super) struct Context {
    cuda: Cuda,
    device: i32,
    /// CUDA's number of the card.
    pub(super) index: u32,
}

pub(super) struct DeviceBuffer<'c> {
    context: &'c Context,
    pub(super) address: u64,
    pub(super) size: u64,
}

pub(super) struct PinnedBuffer<'c> {
    context: &'c Context,
    address: Handle,
    size: u64,
}

#[cfg(not(windows))]
const PLACES: &[&str] =
    &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1"];
#[cfg(windows)]
const PLACES: &[&str] = &["nvcuda.dll"];

impl Cuda {
    pub(super) fn load() -> Result<Cuda, String> {
        let mut why = String::new();
        for place in PLACES {
            // SAFETY: loading the driver's library runs its initializers, as every CUDA program does.
            match unsafe { Library::new(place) } {
                Ok(library) => return Ok(Cuda { calls: Calls::of(&library)?, _library: library }),
                Err(error) => why = error.to_string(),
            }
        }
        Err(Message::new("bench-no-cuda").with("cause", why).to_string())
    }

    fn check(&self, code: Code) -> Result<(), String> {
        if code == OK {
            return Ok(());
        }
        let mut name = std::ptr::null();
        // SAFETY: the call fills one pointer to a static string, or leaves it null.
        let said = unsafe {
            (self.calls.error_name)(code, &raw mut name);
            if name.is_null() {
                code.to_string()
            } else {
                CStr::from_ptr(name).to_string_lossy().into_owned()
            }
        };
        Err(Message::new("bench-cuda-error").with("said", said).to_string())
    }

    fn start(&self) -> Result<i32, String> {
        let mut count = 0;
        // SAFETY: plain integers that outlive each call.
        unsafe {
            self.check((self.calls.init)(0))?;
            self.check((self.calls.count)(&raw mut count))?;
        }
        Ok(count)
    }

    /// CUDA's handle of its GPU number `index`, and the GPU's UUID. In MIG mode that is the card's own, since every driver has
    /// the first version of this call.
    fn device(&self, index: i32) -> Result<(i32, String), String> {
        let (mut device, mut bytes) = (0, [0_u8; 16]);
        // SAFETY: an integer and 16 bytes that outlive the calls.
        unsafe {
            self.check((self.calls.device)(&raw mut device, index))?;
            self.check((self.calls.uuid)(&raw mut bytes, device))?;
        }
        Ok((device, written(&bytes)))
    }

    /// The UUIDs of all GPUs that this process sees, in CUDA's order, in lower case.
    pub(super) fn uuids(&self) -> Result<Vec<String>, String> {
        (0..self.start()?).map(|index| Ok(self.device(index)?.1)).collect()
    }

    /// The card by its UUID: CUDA's numbers need not be NVML's.
    pub(super) fn context(self, uuid: &str) -> Result<Context, String> {
        for index in 0..self.start()? {
            let (device, known) = self.device(index)?;
            if known == uuid.to_ascii_lowercase() {
                let mut handle = std::ptr::null_mut();
                // SAFETY: the primary context is retained once and released when `Context` is dropped.
                unsafe {
                    self.check((self.calls.retain)(&raw mut handle, device))?;
                    let context = Context { cuda: self, device, index: index as u32 };
                    context.cuda.check((context.cuda.calls.set_current)(handle))?;
                    return Ok(context);
                }
            }
        }
        Err(Message::new("bench-not-visible").to_string())
    }
}

/// `gpu-xxxxxxxx-xxxx-…`, as NVML writes it but in lower case.
fn written(bytes: &[u8; 16]) -> String {
    let hex = bytes.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    format!("gpu-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl Context {
    fn calls(&self) -> &Calls {
        &self.cuda.calls
    }

    pub(super) fn free_memory(&self) -> Result<u64, String> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two integers that outlive the call.
        self.cuda.check(unsafe { (self.calls().memory)(&raw mut free, &raw mut total) })?;
        Ok(free as u64)
    }

    pub(super) fn alloc(&self, size: u64) -> Result<DeviceBuffer<'_>, String> {
        let mut address = 0;
        // SAFETY: one integer that outlives the call; freed when the buffer is dropped.
        self.cuda.check(unsafe { (self.calls().alloc)(&raw mut address, size as usize) })?;
        Ok(DeviceBuffer { context: self, address, size })
    }

    pub(super) fn alloc_pinned(&self, size: u64) -> Result<PinnedBuffer<'_>, String> {
        let mut address = std::ptr::null_mut();
        // SAFETY: one pointer that outlives the call; freed when the buffer is dropped.
        self.cuda.check(unsafe { (self.calls().alloc_host)(&raw mut address, size as usize, 0) })?;
        let buffer = PinnedBuffer { context: self, address, size };
        // Touch every page, so that none is mapped while we measure.
        // SAFETY: the driver gave `size` bytes that nobody else uses yet.
        unsafe { std::ptr::write_bytes(buffer.address.cast::<u8>(), 1, size as usize) };
        Ok(buffer)
    }

    pub(super) fn zero(&self, buffer: &DeviceBuffer<'_>) -> Result<(), String> {
        // SAFETY: the buffer is `size` bytes of device memory.
        self.cuda.check(unsafe { (self.calls().set_bytes)(buffer.address, 0, buffer.size as usize) })
    }

    /// The pattern over and over, doubling what is there.
    pub(super) fn fill(&self, buffer: &DeviceBuffer<'_>, pattern: &[u8]) -> Result<(), String> {
        let first = buffer.size.min(pattern.len() as u64);
        // SAFETY: `first` bytes are in both; the copy is waited for before the pattern can go away.
        unsafe {
            let stream = std::ptr::null_mut();
            self.cuda.check((self.calls().up)(
                buffer.address,
                pattern.as_ptr().cast(),
                first as usize,
                stream,
            ))?;
            let mut done = first;
            while done < buffer.size {
                let more = done.min(buffer.size - done);
                self.cuda.check((self.calls().across)(
                    buffer.address + done,
                    buffer.address,
                    more as usize,
                    stream,
                ))?;
                done += more;
            }
            self.cuda.check((self.calls().synchronize)())
        }
    }

    pub(super) fn copy_on_device(
        &self,
        to: &DeviceBuffer<'_>,
        from: &DeviceBuffer<'_>,
    ) -> Result<(), String> {
        let size = to.size.min(from.size) as usize;
        // SAFETY: both buffers hold `size` bytes and live until the measurement is waited for.
        self.cuda
            .check(unsafe { (self.calls().across)(to.address, from.address, size, std::ptr::null_mut()) })
    }

    pub(super) fn copy_up(&self, to: &DeviceBuffer<'_>, from: &PinnedBuffer<'_>) -> Result<(), String> {
        let size = to.size.min(from.size) as usize;
        // SAFETY: as above.
        self.cuda.check(unsafe { (self.calls().up)(to.address, from.address, size, std::ptr::null_mut()) })
    }

    pub(super) fn copy_down(&self, to: &PinnedBuffer<'_>, from: &DeviceBuffer<'_>) -> Result<(), String> {
        let size = to.size.min(from.size) as usize;
        // SAFETY: as above.
        self.cuda.check(unsafe { (self.calls().down)(to.address, from.address, size, std::ptr::null_mut()) })
    }

    fn wait(&self) -> Result<(), String> {
        // SAFETY: no arguments.
        self.cuda.check(unsafe { (self.calls().synchronize)() })
    }

    /// Bring code onto the card and the clocks up, for a third of `window` seconds; gives how many repeats of `work` fill it.
    pub(super) fn warm_up(&self, window: f64, work: impl Fn() -> Result<(), String>) -> Result<u32, String> {
        work()?;
        self.wait()?;
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed().as_secs_f64() < window / 3.0 && done < 1000 {
            work()?;
            self.wait()?;
            done += 1;
        }
        let one = start.elapsed().as_secs_f64() / f64::from(done.max(1));
        Ok((window / one.max(1e-7)).clamp(3.0, 1000.0) as u32)
    }

    /// Seconds of one `work` by the card's own clock, over so many repeats.
    pub(super) fn time(&self, repeats: u32, work: impl Fn() -> Result<(), String>) -> Result<f64, String> {
        let (begin, end) = (Event::new(self)?, Event::new(self)?);
        begin.record()?;
        for _ in 0..repeats {
            work()?;
        }
        end.record()?;
        let milliseconds = begin.until(&end)?;
        Ok(f64::from(milliseconds) / 1e3 / f64::from(repeats))
    }
}

struct Event<'c> {
    context: &'c Context,
    handle: Handle,
}

impl Event<'_> {
    fn new(context: &Context) -> Result<Event<'_>, String> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: one pointer that outlives the call; destroyed when dropped.
        context.cuda.check(unsafe { (context.calls().event)(&raw mut handle, 0) })?;
        Ok(Event { context, handle })
    }

    fn record(&self) -> Result<(), String> {
        // SAFETY: a live event on the default stream.
        self.context.cuda.check(unsafe { (self.context.calls().record)(self.handle, std::ptr::null_mut()) })
    }

    fn until(&self, later: &Event<'_>) -> Result<f32, String> {
        let mut milliseconds = 0.0;
        // SAFETY: two live, recorded events.
        unsafe {
            self.context.cuda.check((self.context.calls().wait)(later.handle))?;
            self.context.cuda.check((self.context.calls().elapsed)(
                &raw mut milliseconds,
                self.handle,
                later.handle,
            ))?;
        }
        Ok(milliseconds)
    }
}

// Failures while giving things back change nothing any more.
impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, dropped once.
        unsafe { (self.context.calls().drop_event)(self.handle) };
    }
}
impl Drop for DeviceBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `alloc`, freed once; the call waits for work on it.
        unsafe { (self.context.calls().free)(self.address) };
    }
}
impl Drop for PinnedBuffer<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `alloc_pinned`, freed once.
        unsafe { (self.context.calls().free_host)(self.address) };
    }
}
impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once by `context`.
        unsafe { (self.cuda.calls.release)(self.device) };
    }
}

#[cfg(test)]
mod tests {
    use super::written;

    #[test]
    fn a_uuid_is_written_as_nvml_does() {
        let bytes =
            [0x9e, 0xab, 0x89, 0xf4, 0x85, 0xc2, 0xa3, 0x38, 0x40, 0x8c, 0xd2, 0x60, 0x35, 0x10, 0x90, 0xeb];
        assert_eq!(written(&bytes), "gpu-9eab89f4-85c2-a338-408c-d260351090eb");
    }
}
