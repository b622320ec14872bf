# `onecard env` 的句子。

# 某个数值为什么读不到（`gaps[].reason`）。
unread-not-supported = 驱动在这张 GPU 上不提供该项
unread-no-permission = 没有权限
unread-no-symbol = 驱动库太旧，没有这个查询接口
unread-not-found = 驱动中没有对应条目
unread-lost = GPU 已从总线上掉线，或需要复位
unread-not-ready = GPU 尚未就绪（机密计算）
unread-blocked = cgroup 或系统禁止本进程访问该设备
unread-no-value = 驱动回答“不可用”
unread-unsafe-process-list = 535.43 到 535.98 的驱动返回的进程列表布局有误；请升级到 535.104 或更新版本
unread-too-soon = 需要间隔至少 100 ms 的两次采样
unread-other = 驱动库报告：{ $what }

# CUDA_VISIBLE_DEVICES 与 CUDA_DEVICE_ORDER 的后果。
visible-empty = CUDA_VISIBLE_DEVICES 被设成了空值，从这里启动的程序看不到任何 GPU；请取消该变量
visible-duplicate = CUDA_VISIBLE_DEVICES 中 `{ $entry }` 出现了两次，整个列表因此作废
visible-ambiguous = CUDA_VISIBLE_DEVICES：前缀 `{ $entry }` 有歧义，多张 GPU 以它开头；列表到此为止，{ $count ->
    [0] 没有 GPU 可见
   *[other] { $count } 张 GPU 可见
}
visible-negative = CUDA_VISIBLE_DEVICES：`{ $entry }` 使列表到此为止；{ $count ->
    [0] 没有 GPU 可见
   *[other] { $count } 张 GPU 可见
}
visible-invalid = CUDA_VISIBLE_DEVICES：`{ $entry }` 不是本机的 GPU，列表到此为止；{ $count ->
    [0] 没有 GPU 可见
   *[other] { $count } 张 GPU 可见
}
visible-order = 此处 NVML 序号与 CUDA 序号可能不同：卡的型号不一，CUDA 把最快的排在前面；请按 UUID 对照，或设置 CUDA_DEVICE_ORDER=PCI_BUS_ID
visible-likely = cuda:0 很可能是 { $name }（NVML 序号 { $index }）
visible-mig-without-instance = 处于 MIG 模式但没有实例的 GPU 无法使用；管理员可用 `nvidia-smi mig -cgi … -C` 创建
visible-one-instance = 列出了 { $count } 个 MIG 实例，但一个程序只能用一个，它得到第一个

env-unknown = 未知

# 为什么没有可用的 GPU，以及怎么办。每种原因各有一句。
absence-system = NVIDIA 没有 { $os } 的驱动，这里用不了任何 CUDA GPU
absence-system-hint = 请在装有 GPU 的 Linux 或 Windows 机器上运行 onecard；`estimate --gpu NAME` 在哪里都能用
absence-no-device = 本机没有 NVIDIA GPU（PCI 总线上没有）
absence-no-device-hint = 租用或换一台带 GPU 的机器；没有 GPU 也可以用 `onecard estimate MODEL --gpu NAME` 得到答案
absence-other-vendor = 本机没有 NVIDIA GPU；现有的 GPU（{ $card }）是其他厂商的
absence-other-vendor-hint = onecard 只能读取 NVIDIA GPU；`estimate` 不需要 GPU
absence-nouveau = 有一张 NVIDIA GPU（{ $card }），但被 nouveau 驱动占用，nouveau 不支持 CUDA
absence-nouveau-hint = 用发行版的软件包安装 NVIDIA 驱动并重启；安装会停用 nouveau
absence-vfio = 有一张 NVIDIA GPU（{ $card }），但已划给虚拟机（vfio-pci）
absence-vfio-hint = 在虚拟机里使用它，或把它重新绑定到 nvidia 驱动
absence-no-driver = 有一张 NVIDIA GPU（{ $card }），但没有安装 NVIDIA 驱动
absence-no-driver-unseen = 本机没有安装 NVIDIA 驱动；PCI 总线无法列出，所以也无从得知有没有 GPU
absence-no-driver-unseen-hint = 如果确有显卡，请安装 NVIDIA 驱动；在 chroot 里请先挂载 /proc、/sys 和 /dev
absence-no-driver-hint = 用发行版的软件包安装驱动（`ubuntu-drivers install`、`dnf install nvidia-driver`）并重启
absence-module = 已安装 NVIDIA 驱动，但内核模块没有加载
absence-module-hint = 运行 `sudo modprobe nvidia` 可看到原因；内核升级后需重新编译模块（`dkms status`），开启 Secure Boot 时模块必须签名
absence-container = 这个容器启动时没有分配 GPU：里面既没有 GPU 设备，也没有驱动库
absence-container-hint = 启动容器时加上 `--gpus all`（Docker）、`--device nvidia.com/gpu=all`（Podman）或平台的 GPU 选项；驱动由宿主机传入，容器内无需改动
absence-container-hides = 这个容器得不到 GPU：NVIDIA_VISIBLE_DEVICES 如此设定
absence-container-hides-hint = 启动容器时设置 NVIDIA_VISIBLE_DEVICES=all 或 GPU 的 UUID
absence-no-nodes = 驱动（{ $module }）已加载，但没有设备节点 /dev/nvidia0
absence-no-nodes-hint = `sudo nvidia-modprobe -u -c 0` 或 `sudo nvidia-smi` 会创建这些节点
absence-permission = 没有权限使用 GPU（{ $nodes }）
absence-permission-hint = 把用户加入 /dev/nvidia* 所属的组（通常是 `video` 或 `render`）后重新登录，或联系管理员
absence-blocked = 系统禁止本进程使用 GPU（设备 cgroup）
absence-blocked-hint = 向调度器申请 GPU（`--gres=gpu:1`、`nvidia.com/gpu: 1`）；若容器在 `systemctl daemon-reload` 之后丢了 GPU，请重启容器
absence-library = 驱动（{ $module }）已加载，但缺少它的库 libnvidia-ml.so.1
absence-library-hint = 安装同版本（{ $module }）的驱动用户态软件包，或把库所在目录加入 LD_LIBRARY_PATH
absence-library-container-hint = 容器里有设备却没有驱动库：请用 NVIDIA 运行时启动，并设置 NVIDIA_DRIVER_CAPABILITIES=compute,utility
absence-library-damaged = 找到的驱动库无法使用：{ $said }
absence-library-damaged-hint = 先被找到的是 CUDA 工具包的桩库或别的架构的库：请把它所在目录从 LD_LIBRARY_PATH 中去掉
absence-mismatch = 驱动与库版本不一致：内核模块是 { $module }，库是 { $library }
absence-mismatch-hint = 驱动在运行期间被升级：请重启，或卸载后重新加载 nvidia 模块
absence-mismatch-container-hint = 容器启动之后宿主机的驱动被升级，或镜像自带了驱动库：请重启容器，并把驱动软件包从镜像中去掉
absence-wsl-driver = WSL 中有 GPU（/dev/dxg），但找不到驱动库
absence-wsl-driver-hint = 在 Windows 里（而不是 Linux 里）安装 NVIDIA 驱动，并把 /usr/lib/wsl/lib 加入 LD_LIBRARY_PATH
absence-wsl-gpu = 这个 WSL 里看不到 GPU（缺少 /dev/dxg）
absence-wsl-gpu-hint = 需要 WSL 2 和较新的 Windows 驱动：先 `wsl --update`，再 `wsl --shutdown`
absence-jetson = 这是没有 NVML 的 Jetson：它的 GPU 要通过 JetPack 的库使用
absence-jetson-hint = JetPack 5 及以后自带 NVML；显存与 CPU 共用，用 `tegrastats` 查看占用
absence-not-ready = GPU 尚未就绪：被机密计算拦住
absence-not-ready-hint = 完成认证后用 `nvidia-smi conf-compute -srs 1` 置为就绪
absence-lost = GPU 已从总线上掉线，或需要复位
absence-lost-hint = `dmesg | grep -i xid` 能看到原因；重启机器，若再次发生就退还给服务商
absence-none-reported = 驱动（{ $module }）正常，但没有报告任何 GPU
absence-none-reported-hint = `dmesg | grep -i nvrm` 能看到原因：该驱动不支持这张卡、供电不足，或 vGPU 没有许可证
absence-hidden = 有 GPU，但 CUDA_VISIBLE_DEVICES 让从这里启动的程序都看不到它
absence-hidden-hint = 取消 CUDA_VISIBLE_DEVICES，或写一张确实存在的 GPU
absence-no-instance = GPU 处于 MIG 模式却没有实例：程序只能看到实例
absence-no-instance-hint = 管理员可创建实例（`nvidia-smi mig -cgi … -C`）或关闭 MIG（`nvidia-smi -mig 0`）
absence-unknown = 驱动库无法启动：{ $said }
absence-unknown-hint = `nvidia-smi` 和 `dmesg | grep -i nvrm` 可能有更多信息

# 驱动有回应，但 CUDA 仍无法启动。
absence-no-power = GPU 供电不足：有供电线没接
absence-cuda-missing = 驱动有回应，但加载器的各目录里都没有 CUDA 所用的 libcuda.so.1：PyTorch 看不到 GPU
absence-cuda-missing-hint = 安装同一版本（{ $module }）驱动的计算组件：Ubuntu 为 `libnvidia-compute-…`，Debian 为 `libcuda1`，RHEL 为 `nvidia-driver-cuda-libs`
absence-cuda-stub = 程序找到的是 CUDA 工具包的桩库，而不是驱动的库（{ $path }）：CUDA 会报错误 34（stub library）
absence-cuda-stub-hint = 把该目录从 LD_LIBRARY_PATH 中去掉；桩库只供链接使用
absence-cuda-mismatch = 程序找到的是驱动 { $cuda } 的 CUDA 库（{ $path }），而内核模块是 { $module }：CUDA 会报错误 803（驱动组合不受支持）
absence-cuda-mismatch-hint = 删除那份库或把其目录从 LD_LIBRARY_PATH 中去掉，让程序找到驱动 { $module } 的库；刚更新过驱动则重启机器或容器
absence-cuda-compat = 程序在驱动 { $module } 之前先找到了前向兼容库（{ $path } 中的 { $cuda }）；它只用于数据中心卡，在这张卡上 CUDA 会报错误 804
absence-cuda-compat-hint = 把该目录从 LD_LIBRARY_PATH 中去掉或卸载 cuda-compat 包，改用驱动 { $module } 能运行的 PyTorch 构建，或升级驱动
absence-no-uvm = 这个容器里有 GPU 设备却没有 /dev/nvidia-uvm：nvidia-smi 可用，CUDA 无法启动（错误 999）
absence-no-uvm-hint = 在宿主机上执行 `sudo nvidia-modprobe -u -c 0` 即可创建
absence-no-uvm-container-hint = 在宿主机上执行 `sudo nvidia-modprobe -u -c 0`，再用 NVIDIA 运行时重新启动容器（或加 `--device /dev/nvidia-uvm`）
absence-fabric = 本机的 NVSwitch 尚未配置：在 fabric manager 完成配置之前，CUDA 会报错误 802（system not yet initialized）
absence-fabric-hint = `sudo systemctl start nvidia-fabricmanager`，其版本须与驱动一致；然后看 `nvidia-smi -q -i 0 | grep -A 3 Fabric`
check-fabric = NVLink 互联尚未接纳这张 GPU；CUDA 可能报错误 802（system not yet initialized）
check-uvm = 缺少 /dev/nvidia-uvm：没有辅助程序 nvidia-modprobe 时 CUDA 无法启动
check-bus = PCI 总线上有 { $bus } 张 GPU 绑定到驱动，而驱动只数到 { $counted } 张：其余的未能启动
check-unreachable-lost = 驱动数到了这张 GPU，但它已从总线上掉线，或需要复位
check-unreachable-permission = 驱动数到了这张 GPU，但不允许使用
check-unreachable-power = 驱动数到了这张 GPU，但它供电不足
check-unreachable-power-hint = 接好显卡的供电线，然后重启
check-unreachable-not-ready = 驱动数到了这张 GPU，但它尚未就绪（机密计算）
check-unreachable = 驱动数到了这张 GPU，但无法访问：{ $said }

# 页面。
env-title = 本机
env-usable = 有可用的 GPU：{ $name }
env-driver = 驱动版本
env-driver-cuda = 驱动支持的 CUDA
env-gpus = GPU 列表
env-gpu = GPU { $index }：{ $name }
env-column-index = NVML
env-column-cuda = CUDA 序号
env-column-name = 名称
env-column-uuid = UUID
env-column-sms = SM 数
env-column-pid = PID
env-column-kind = 类型
env-column-field = 字段
env-column-reason = 缺失原因
env-pci = PCI 地址
env-hidden = 不可见
env-capability = 计算能力
env-capability-sms = { $capability }（{ $count } 个 SM）
env-precisions = 原生精度
env-precisions-slow = { $native }（硬件支持但很慢：{ $slow }）
env-catalog = 目录条目
env-catalog-differs = { $id }，但显存大小不同：只是一部分，或显存颗粒不是原厂配置
env-catalog-none = 目录中没有这张卡
env-memory-total = 显存
env-memory-reserved = 驱动保留
env-memory-used = 已用
env-memory-used-v1 = { $used }（此驱动的数值可能包含自身保留的部分：同一个量，定义不同；并非泄漏）
env-memory-free = 空闲
env-memory-unified = 与 CPU 共用；驱动没有单独的 GPU 数值
env-memory-untold = 驱动没有给出
env-budget = 程序可用
env-budget-host = 目前 { $total } 中的 { $available }：这是主机内存，与本机所有程序共用。占满会让机器卡死而不会报显存不足；请给系统留出余量
env-budget-instance = 目前 { $total } 中的 { $available }：这是它的 MIG 实例。单个程序用不到整卡的显存
env-utilization = 利用率
env-power = 功耗
env-power-of = { $watts } W，上限 { $limit } W
env-temperature = 温度
env-clock-sm = SM 频率，当前 / 最高
env-clock-memory = 显存频率，当前 / 最高
env-throttle = 降频原因
env-pcie = PCIe 链路
env-pcie-below = 当前 { $now }，最高 { $max }（空闲时链路会降速；只有在负载下才说明插槽慢）
env-ecc = ECC
env-on = 开
env-off = 关
env-mig = MIG
env-mig-note = MIG 已开启：请使用实例而不是整卡。此模式下驱动不提供整卡的利用率。
env-virtual = 虚拟化
env-virtual-none = 无
env-virtual-passthrough = 整卡直通给本虚拟机
env-virtual-vgpu = vGPU：一张卡的一部分
env-virtual-host = vGPU 的宿主机
env-mode = 计算模式
env-mode-default = 默认
env-mode-exclusive = 独占：同一时间只能有一个进程；再来一个（哪怕只是用 PyTorch 查一下）就会失败，或让任务失败
env-mode-prohibited = 禁止：任何程序都不能计算
env-processes-none = 这张 GPU 上没有进程。
env-kind-compute = 计算
env-kind-graphics = 图形
env-kind-mps = MPS 客户端
env-host = 主机环境
env-cores = CPU 核数
env-cores-of = { $all } 核中可用 { $usable } 核
env-host-memory = 主机内存
env-host-memory-total = 可用 { $available }，共 { $total }
env-host-memory-limit = 可用 { $available }，共 { $total }（cgroup 上限）
env-working-folder = 工作目录
env-free-of = 空闲 { $free }，共 { $total }
env-disk = 空闲 { $free }，共 { $total }，挂载于 { $mount }（{ $kind }）
env-disk-local = 本地磁盘
env-disk-layer = 容器层：随容器一起消失
env-disk-memory = 内存盘
env-disk-network = 网络存储
env-in-container = 容器（{ $kind }）
env-in-vm = 虚拟机（{ $kind }）
env-kind-of-machine = 机器类型
env-gaps = 未能读取的内容
env-gaps-count = 有 { $count } 项数值未能读取；用 --verbose 查看各项及原因。

# 拒绝。
env-no-such-gpu = 本机没有 GPU `{ $selector }`
env-no-such-gpu-hint = 现有：{ $known }
env-ambiguous-gpu = `{ $selector }` 对应多张 GPU
env-ambiguous-gpu-hint = 把 UUID 再多写几位：{ $known }

# 用户命令所用的 Python。
stack-no-python = PATH、VIRTUAL_ENV 和 CONDA_PREFIX 中都找不到 Python
stack-python-not-started = 无法启动 { $path }：{ $cause }
stack-python-hangs = { $path } 在 { $limit } 内没有响应
stack-python-silent = { $path } 无法工作：它没有回答就结束了（{ $status }）
stack-python-broken = { $path } 无法工作（{ $status }）：{ $said }

# 已安装软件的检查。
check-torch-none = { $path } 中没有安装 PyTorch
check-torch-none-hint = 用 --python 指明任务所用的 Python，或用 --no-python 跳过
check-python-asked-hint = 指定一个能启动的 Python，或它的环境所在的目录
check-python-hint = 这是在这里执行 `python train.py` 会启动的 Python：修复它，或用 --python 指定任务所用的 Python
check-environment = { $variable } 是 { $folder }，但 `python` 是 { $path }：它看不到那个环境里的软件包
check-environment-hint = 重新激活环境（`source { $folder }/bin/activate`、`conda activate { $folder }`），或用 --python 指定其中的 Python
check-environment-empty = { $variable } 是 { $folder }，但那里没有 Python：环境已损坏或被删除，`python` 是 { $path }
check-environment-empty-hint = 重建该环境，或取消 { $variable }
check-libraries = PyTorch { $version } 旁的 NVIDIA 库与其锁定的版本一致（{ $count } 个）
check-libraries-missing = PyTorch { $version } 所链接的库没有安装：{ $missing }；除非系统里另有，否则 `import torch` 会失败
check-libraries-others = PyTorch { $version } 旁的库与括号中锁定的版本不同：{ $others }；可能缺少符号，结果与速度未经测试
check-libraries-both = PyTorch { $version } 旁的库与它不配套：缺少 { $missing }；版本不同：{ $others }
check-libraries-hint = 从同一个索引执行 `pip install --force-reinstall torch=={ $release }` 可恢复；`pip check` 会指出是谁要求了别的版本
check-torch-cuda = PyTorch 构建无误：{ $version } 面向 CUDA { $cuda } 构建
check-torch-cpu = PyTorch { $version } 是 CPU 版：无论驱动如何都看不到 GPU
check-torch-rocm = PyTorch { $version } 是面向 AMD GPU 的构建（ROCm { $hip }）
check-torch-cuda-hint = 安装 torch 的 CUDA 版：`pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/{ $tag }`
check-driver-full = 驱动 { $driver } 支持 CUDA { $cuda }，正是 PyTorch { $version } 构建时所用的
check-driver-minor = 驱动 { $driver } 早于 PyTorch { $version } 的 CUDA { $cuda }，但主版本相同，够用；运行时编译的代码可能需要更新的驱动
check-driver-old = 驱动 { $driver } 对 PyTorch { $version } 来说太旧：CUDA { $cuda } 需要驱动 { $needs } 或更新
check-driver-old-hint = 把驱动升级到 { $needs } 或更新，或安装与现有 CUDA 匹配的构建（`--index-url https://download.pytorch.org/whl/{ $tag }`）
check-kernels-native = PyTorch { $version } 含有这张卡的代码（计算能力 { $capability } 用 { $arch }）
check-kernels-ptx = PyTorch { $version } 没有计算能力 { $capability } 的机器码，只有 { $arch }，要由驱动在首次启动时编译：耗时数分钟，算子也更慢
check-kernels-ptx-newer = PyTorch { $version } 没有计算能力 { $capability } 的机器码，只有 { $arch }；而本机驱动比写出它的 CUDA { $cuda } 旧，无法编译：第一个内核会报 "unsupported PTX version"
check-kernels-none = PyTorch { $version } 没有这张卡的代码：计算能力 { $capability } 不在其列表中（{ $list }）；第一个算子就会报 "no kernel image is available"
check-kernels-newer-hint = 安装 { $tag } 或更新的 torch 构建，其列表应含 { $arch }
check-kernels-older-hint = 安装较旧的 torch，或 CUDA 标签较旧的构建，其列表应仍含 { $arch }；以已装构建的列表为准，而不是标签
check-kernels-any-hint = 安装列表中含 { $arch } 的 torch 构建
check-kernels-unknown = 无法从文件中读出 PyTorch { $version } 含有哪些卡的代码
check-package-torch = { $name } { $version } 是针对 PyTorch { $built } 编译的，而已安装的是 { $torch }：其函数可能加载失败
check-package-torch-hint = 安装与现有 PyTorch 匹配的 { $name }，或从源码编译
check-package-cuda = { $name } { $version } 只含 CUDA { $built } 的代码；PyTorch 用的是 CUDA { $cuda }
check-package-cuda-hint = 升级 { $name }
check-package-card = { $name } { $version } 不支持计算能力 { $capability }
check-package-card-hint = 使用 `attn_implementation="sdpa"`
check-triton = { $name } { $version } 自带的是 CUDA { $built } 的 ptxas，不认识计算能力 { $capability }（CUDA { $needs } 起才认识）：`torch.compile` 和 Triton 算子会失败
check-triton-hint = 安装更新的 PyTorch 及其固定的 triton，或把 TRITON_PTXAS_PATH 设为更新的 CUDA 工具包里的 ptxas

# GPU 周边环境的检查。
check-shm = /dev/shm 有 { $total }
check-shm-small = /dev/shm 只有 { $total }，对 DataLoader 工作进程太小：它们会因总线错误（bus error）而崩溃
check-shm-hint = 启动容器时加 --shm-size=8g 或 --ipc=host，或设 num_workers=0
check-shm-full = /dev/shm 共 { $total }，只剩 { $free }：用满后 DataLoader 工作进程会因总线错误（bus error）而崩溃
check-shm-full-hint = 清理已死进程在 /dev/shm 中留下的文件
check-cores = 可用 { $cores } 个 CPU 核
check-core = 只可用 { $cores } 个 CPU 核
check-core-few = { $gpus } 张 GPU 只配有 { $cores } 个 CPU 核：数据加载很可能成为瓶颈
check-cores-few = { $gpus } 张 GPU 只有 { $cores } 个 CPU 核：数据加载很可能成为瓶颈
check-cores-hint = 事先预处理数据，或换一台每张 GPU 至少四核的机器
check-cores-quota = 实际分得 { $cores } 核的时间，但程序会数出 { $counted } 个 CPU 并启动同样多的线程
check-cores-quota-hint = 设置 OMP_NUM_THREADS={ $threads }，DataLoader 工作进程数也不要超过它
check-memory = 主机内存可用 { $available }，共 { $ceiling }
check-memory-full = 主机内存只剩 { $available }（共 { $ceiling }）：任务可能在加载时被杀
check-memory-full-hint = 结束其他程序，或换内存更大的机器
check-memory-less = 主机内存 { $ceiling } 小于显存 { $gpu }：这么大的模型无法经由内存加载
check-memory-less-hint = 把权重直接加载到 GPU（`device_map`、`low_cpu_mem_usage=True`），少用卸载（offload）和锁页内存
check-files = 可同时打开 { $limit } 个文件
check-files-few = 只能同时打开 { $limit } 个文件：DataLoader 工作进程会不够用（"too many open files"、"received 0 items of ancdata"）
check-files-hint = 运行任务前执行 `ulimit -n 65536`
check-disk = 任务的写入位置（{ $path }）空闲 { $free }
check-disk-read-only = 工作目录 { $path } 是只读的
check-disk-layer = 工作目录 { $path } 在容器自己的层里：写在那里的东西会随容器消失
check-disk-memory = 工作目录 { $path } 在内存里：占用主机内存，结束后即消失
check-disk-network = 工作目录 { $path } 在网络文件系统上：从那里读大量小文件很慢
check-disk-little = 任务的写入位置（{ $path }）所在的 { $mount } 只剩 { $free }
check-disk-inodes = { $mount } 上（{ $path }）只能再建 { $left } 个文件，无论大小
check-disk-hint = 把检查点写到空间更大的挂载卷上
check-disk-other-hint = 写到 { $mount }，那里空闲 { $free }
check-wsl = WSL：GPU 放不下的内容会悄悄溢出到主机内存，不报错，但一切都会变慢；也看不到每个进程的显存
check-wsl-hint = 留意步时间；在 NVIDIA 控制面板中把 "CUDA - Sysmem Fallback Policy" 设为 "Prefer No Sysmem Fallback"
check-pids = 这个容器的进程号与宿主机不同，而驱动用的是宿主机的：GPU 上的进程对不上号，很可能就是本任务
check-checkpoint = { $checkpoint } 的检查点放得进 { $mount }（空闲 { $free }）
check-checkpoint-none = { $folder } 位于 { $mount }（共 { $total }，空闲 { $free }）：连一个 { $checkpoint } 的检查点都放不下
check-checkpoint-few = { $folder } 位于 { $mount }，空闲 { $free }：放得下 { $fit } 个 { $checkpoint } 的检查点，而写入最新一个时需要同时容纳 { $needed } 个
check-checkpoint-unlimited = { $folder } 位于 { $mount }，空闲 { $free }：写 { $fit } 个 { $checkpoint } 的检查点就满了，而且没有限制保留个数
check-checkpoint-limit-hint = 限制保留的检查点个数（`save_total_limit=2`）
check-checkpoint-both-hint = { $place }，并限制保留的检查点个数（`save_total_limit=2`）

# 显卡健康的检查。
check-ecc = 没有无法纠正的显存错误（驱动加载以来纠正了 { $corrected } 次）
check-ecc-now = 驱动加载以来有 { $count } 次无法纠正的显存错误：结果可能出错，任务可能崩溃
check-ecc-ever = 这张卡历史上有 { $count } 次无法纠正的显存错误，驱动加载以来没有
check-ecc-hint = 复位 GPU 或重启；若再次出现就退卡
check-rows = 没有等待替换的显存行
check-rows-some = 已有 { $count } 个坏行或坏页换成了备用的；卡的工作不受影响
check-rows-pending = 发现坏显存，将在下次复位时替换
check-rows-hint = 长任务之前先复位 GPU（`nvidia-smi -r`）或重启
check-rows-failed = 坏显存已无备用行可换
check-return-hint = 换一台机器，并把这台报告给服务商
check-xid = 驱动在这张卡上报告了 Xid { $number }
check-xid-program = 驱动在这张卡上报告了 Xid { $number }：是程序自身的错误，或已恢复
check-xid-hardware = 驱动在这张卡上报告了 Xid { $number }：卡、显存或链路有故障
check-throttle = 没有降频
check-throttle-now = 正在降频，原因：{ $reasons }
check-throttle-hint = 散热或供电不足：每一步都会变慢；换一台机器
check-temperature = { $celsius } °C；到 { $limit } °C 会降频
check-hot = { $celsius } °C，快到 { $limit } °C 的降频线
check-free = 没有别人在用这张 GPU
check-others = { $count ->
    [0] 这张 GPU 已经被占用
   *[other] 这张 GPU 上已有 { $count } 个进程
}（占用 { $used }）
check-others-hidden = 这张 GPU 有 { $used } 显存被此处看不到的进程占用
check-others-hint = 结束它们或换一张 GPU：显存和算力都要与它们分享
check-pcie = PCIe x{ $width }，已是卡与插槽的最大宽度
check-pcie-narrow = PCIe 运行在 x{ $width } 而不是 x{ $full }：转接线、共享插槽或接触不良；向 GPU 拷贝耗时为 { $full }/{ $width } 倍
check-pcie-slow = 负载下 PCIe 运行在第 { $gen } 代，而不是第 { $best } 代
check-pcie-hint = 影响数据加载和卸载（offload），不影响计算；若任务要用到就换机器
check-mode-prohibited = 计算模式为禁止：任何程序都不能使用这张 GPU
check-mode-exclusive = 计算模式为独占：同时只能有一个程序，因此 onecard 不在上面建立上下文，只通过 NVML 读取
check-mode-busy = 计算模式为独占且已有程序在运行：再来一个就会失败，哪怕只是用 PyTorch 查一下
check-mode-hint = 管理员可用 `nvidia-smi -c 0` 更改
check-persistence = 持久模式已关闭：空闲之后的第一次 CUDA 调用要好几秒
check-meter-v1 = 此驱动按旧方式统计已用显存，510 起还包含保留部分：同一个量，定义不同；空闲卡上几百 MiB 不是泄漏
check-unified = GPU 与系统合计可用主机内存 { $available }，共 { $total }
check-unified-hint = 统一内存要给系统留余量：不会报显存不足，机器会直接卡死

# --expect：是不是承诺的那张卡？
expect-other-card = 是另一张卡
expect-unified = 与主机共用
expect-power-lowered = 比板卡默认的 { $default } W 低：持续频率会下降
expect-slot = 插槽只能做到这样
expect-virtual-bus = 虚拟机的总线掩盖了真实链路
expect-under-load = 负载下测得
expect-idle-link = 空闲时链路会降速；请在负载下再看
expect-narrow = 转接线、共享插槽或接触不良
expect-whole = 整卡
expect-mig = MIG：一部分
expect-vgpu = vGPU：一部分
expect-alone = 没有别人
expect-shared = 还有 { $count } 个其他进程

env-stack = 软件
env-arch-list = PyTorch 支持的架构
env-packages = 软件包
env-promise = GPU { $index } 与 { $expected } 比对
env-column-what = 项目
env-column-promised = 承诺
env-column-found = 实际
env-column-answer = 结论
env-column-note = 说明
env-kept = 相符
env-less = 不足
env-cannot-tell = 无法判断
promise-card = 型号
promise-memory = 显存
promise-compute_capability = 计算能力
promise-sm_count = 流多处理器
promise-memory_bandwidth = 显存带宽
promise-sm_clock = 频率
promise-power_limit = 功耗上限
promise-pcie_generation = PCIe 代数
promise-pcie_width = PCIe 宽度
promise-ecc = ECC
promise-whole_card = 是否整卡
promise-alone = 是否独占
env-checks = 需要注意
env-check-on = GPU { $index }：{ $text }
env-check-hint = { $text }。下一步：{ $hint }
env-expect-unknown = 目录中没有 GPU `{ $name }`
env-expect-near-hint = 相近的有：{ $near }
env-expect-several = `{ $name }` 对应多张卡
env-expect-several-hint = 请写其中之一：{ $ids }
env-expect-no-row = `{ $name }` 不在目录中，没有可比对的依据
env-expect-no-row-hint = 写明承诺的是哪张卡：--expect GPU

# GPU 之间如何互通。
check-pair-nvlink = GPU { $a } 与 GPU { $b } 之间有 NVLink
check-pair-pcie = GPU { $a } 与 GPU { $b } 通过 PCIe 访问彼此的显存
check-pair-no-peer = GPU { $a } 与 GPU { $b } 不能访问彼此的显存：两者之间的一切都要绕经主机
check-pair-sockets = GPU { $a } 与 GPU { $b } 在不同的处理器插槽上：两者间的流量要跨插槽互联
check-pair-hint = 同时用这两张卡训练时才有影响：选距离更近的一对，或减少通信（ZeRO 用 1 而不是 3、梯度累积）
env-column-pair = GPU 对
env-column-joined = 连接方式
env-column-peer = 点对点访问
env-joined-board = 同一块板
env-joined-switch = 一个 PCIe 交换芯片
env-joined-switches = 多个 PCIe 交换芯片
env-joined-bridge = 主桥
env-joined-node = 同一处理器插槽
env-joined-system = 跨处理器插槽
env-yes = 是
env-no = 否

# --bench。
env-measuring = 正在实测 { $name }，需要几秒…
env-bench = GPU { $index } 实测
env-column-measured = 实测
env-column-peak = 峰值
env-column-share = 占比
env-bench-library = 矩阵乘通过 { $library }。
env-bench-gap = { $field }：{ $reason }
bench-task-device_copy = 显存读写
bench-task-host_to_device = 从锁页内存拷入
bench-task-device_to_host = 拷出到锁页内存
bench-task-fp64 = 矩阵乘 fp64
bench-task-fp32 = 矩阵乘 fp32
bench-task-tf32 = 矩阵乘 tf32
bench-task-fp16 = 矩阵乘 fp16
bench-task-bf16 = 矩阵乘 bf16
bench-task-fp8 = 矩阵乘 fp8
bench-no-cuda = 无法加载驱动的 CUDA 库：{ $cause }
bench-cuda-error = CUDA 报告 { $said }
bench-not-visible = CUDA 看不到这张 GPU
bench-no-cublas = 本机没有 cuBLAS：既没有 PyTorch 也没有 CUDA 工具包带来它
bench-cublas-error = cuBLAS 返回状态 { $status }
bench-no-cublaslt = 提供 fp8 矩阵乘的 cublasLt 不在 cuBLAS 旁边
bench-no-memory = GPU 上空闲显存太少
bench-gave-way = 期间有别的进程用上了这张 GPU：测量就此结束，这个数值不予采用
bench-hangs = 在 { $limit } 内没有结束
check-bench = { $task }：达到峰值的 { $share }
check-bench-low = { $task } 只达到峰值的 { $share }：低于同类卡的水平
check-bench-hint = 在空闲的卡上再测一次；若仍如此，检查频率、功耗上限和插槽，或换一台机器

check-clock = 系统时钟显示 { $clock }：下载会因证书失败，日志和期限也都不对
check-clock-hint = 校准时钟（`sudo timedatectl set-ntp true`）

# 卡附近的 CPU、交换区、测量期间的时钟。
check-affinity = 可以使用卡附近的 CPU（{ $near }）
check-affinity-far = 本进程只能在 CPU { $allowed } 上运行，其中没有一个靠近这张卡（{ $near }）：所有数据往来都要经过 CPU 插槽之间的链路
check-affinity-far-hint = 把任务绑定到靠近这张卡的 CPU：容器允许时用 `taskset -c { $near }` 或 `numactl --cpunodebind`
env-bench-clock = 运行在 { $mhz } MHz
env-bench-clock-held = 运行在 { $mhz } MHz（{ $reasons }）
env-bench-link = 拷贝期间的 PCIe 链路：{ $link }。
env-column-meanwhile = 期间频率
env-near = 靠近它的 CPU
env-near-node = { $cpus }（NUMA 节点 { $node }）
env-swap = 交换区
env-swap-none = 无
expect-other-memory = 显存种类不同：频率无法比较
expect-persistence = 已关闭：停顿之后的第一次 CUDA 调用要好几秒；不算卡的缺陷
promise-memory_bus = 显存位宽
promise-memory_clock = 显存频率
promise-persistence = 持久模式
unread-accounting-off = 记账模式已关闭（管理员可以打开：nvidia-smi -am 1）
unread-silent = 半秒之内没有回答
unread-system = 系统回答：{ $what }
visible-told = CUDA 把最快的卡排在前面：cuda:0、cuda:1……依次是 NVML 序号 { $order } 的卡
