# 训练命令的失败：日志里没有哪一行直接说出的证据，以及接下来可以试什么。

failure-evidence-signal = 命令被信号 { $signal } 结束
failure-evidence-oom-kills = 命令被信号 { $signal } 结束，其 cgroup 记录了 { $count } 次因内存不足的强杀
failure-evidence-xid = 驱动报告了 Xid { $xid }
failure-evidence-loss = { $name } 连续 { $count } 次为 NaN、无穷大或归零，且没有恢复
failure-evidence-slower = 开始时每步 { $early }，结束时每步 { $late }，是原来的 { $factor } 倍
failure-evidence-gpu-growth = 显存占用每小时上升 { $hourly }，没有趋于平稳
failure-evidence-host-growth = 主机内存占用每小时上升 { $hourly }，没有趋于平稳
failure-evidence-until = { $growth }；{ $time } 后达到上限

advice-reduce-memory = 减小批量或缩短序列；`onecard estimate` 会说明哪种改动省得最多
advice-fragmentation = 设置 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True：PyTorch 占着却没用的显存本可满足这次请求
advice-gpu-shared-with-other-process = 另一个进程占着这张 GPU 的显存：结束它，或换一张空闲的 GPU
advice-gpu-full-before-start = 命令启动之前这张 GPU 就满了：结束上面的进程（`onecard env` 会列出），或换一张空闲的 GPU
advice-save-adapter-only = 保存时显存不够：只保存适配器，或在 CPU 上合并
advice-reduce-evaluation-memory = 评估时显存不够：减小评估的批量，并少留 logits
advice-raise-gpu-memory-utilization-or-smaller-model = 调高 gpu_memory_utilization，缩短最大序列长度，或换更小或量化的模型
advice-kernel-block-size = 减小算子的块大小或 num_stages：这里说的是片上存储，换大卡没有用
advice-raise-shm-or-fewer-workers = 给容器更多共享内存（`--shm-size=8g` 或 `--ipc=host`），或减少 DataLoader 工作进程
advice-raise-job-memory = 为任务申请更多主机内存（`--mem`，或容器上限），或减少 DataLoader 工作进程
advice-reduce-host-memory = 不够的是主机内存而不是显存：减少 DataLoader 工作进程，一次少加载些数据，或换内存更大的机器
advice-free-disk-or-save-total-limit = 腾出磁盘空间，把检查点写到别处，或少留几个（save_total_limit）
advice-torch26-weights-only = 文件完好：torch 2.6 起 torch.load 拒绝 pickle 对象；升级相应的库，或对可信的文件传入 weights_only=False
advice-use-previous-checkpoint = 最新的检查点已损坏：从上一个恢复
advice-download-or-use-previous = 文件不完整或名不副实：重新下载，或用更早的一个
advice-bf16-or-lower-lr = 用 bf16 代替 fp16、降低学习率或裁剪梯度，并从损失发散之前的检查点恢复
advice-reboot-or-reload-driver = 驱动在使用中被升级：重启，或重新加载内核模块
advice-install-torch-for-older-cuda = 升级驱动，或安装面向较旧 CUDA 的构建
advice-restart-container = 容器丢了 GPU：重启容器（宿主机的 GPU 没有问题）
advice-gpu-not-visible = 命令看不到任何 GPU：启动容器时加 `--gpus all`，并检查 CUDA_VISIBLE_DEVICES
advice-install-cuda-torch = 安装带 CUDA 的构建：现在这个只支持 CPU
advice-bitsandbytes-cuda-build = 安装含有此 CUDA 版本二进制的 bitsandbytes
advice-rebuild-extension = 某个扩展是针对其他版本的 torch、CUDA 或系统编译的：请针对现用版本重新安装
advice-install-newer-torch-build = 安装架构列表含有此 GPU 的构建：GPU 比现有构建新
advice-install-older-torch-build = 安装仍然支持此 GPU 的构建：GPU 比现有构建所支持的旧
advice-use-sdpa-or-eager = 在这张 GPU 上用 sdpa 或 eager 注意力；显存随序列长度增长得更快
advice-free-exclusive-gpu = GPU 处于独占模式且已被占用：结束占用它的进程
advice-hardware-or-provider = 硬件故障：请服务商换一台机器
advice-label-out-of-range = 有标签超出模型的类别范围：检查标签和类别数
advice-index-out-of-range = 有下标超出表的范围：对照词表检查 token 编号，对照最大序列长度检查位置
advice-device-assert = 用 CUDA_LAUNCH_BLOCKING=1 再跑一次，看是哪一行失败
advice-kernel-bug-or-index = 用 CUDA_LAUNCH_BLOCKING=1 且不用自定义算子再跑一次，看是哪个算子越界
advice-check-nccl = 用 NCCL_DEBUG=INFO 再跑一次，找出最先失败的 rank
advice-time-limit = 任务的时限到了：申请更长的时间，并从最近的检查点恢复
advice-resume-from-checkpoint = 命令被要求退出：从最近的检查点恢复
advice-native-crash = 原生代码崩溃：用 `python -X faulthandler` 再跑一次，并检查编译型软件包的版本
advice-interrupted = 命令被人手动中断
advice-killed-by-someone = 命令被强杀，且不是因为内存不足：是调度器、看门狗或人做的
advice-use-the-gpu = 训练跑在了 CPU 上：`onecard env` 会说明 GPU 与这个构建是否匹配
advice-look-at-the-log = 看日志中它前后的几行
advice-find-the-slowdown = 对比开始时与现在的温度、频率和数据加载
advice-find-the-leak = 不要留住带计算图的张量（用 `.item()` 或 `.detach()`），并检查不断增长的列表
