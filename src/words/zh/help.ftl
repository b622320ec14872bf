# 命令行帮助：`help-about-命令`、`help-命令-选项`（各命令共用的是 `help-common-选项`）、
# `help-value-选项-取值`、`help-examples-命令`。

help-about-help = 显示本帮助或指定子命令的帮助
help-about = 这一张显卡够不够跑这个任务？花钱之前先回答：显存、时间、精度、断点恢复
help-onecard-completions = 把某种 shell 的补全脚本写到标准输出；GPU 和模型的名字也能补全
help-onecard-man = 把手册页写进一个目录
help-onecard-licenses = 编译在内的一切的许可证
help-common-format = 标准输出的内容格式
help-common-output = 同时把 JSON 文档写入 FILE：要么完整写入，要么不写
help-common-color = 是否使用颜色；遵守 `NO_COLOR`
help-common-lang = 界面语言（默认取自 `LC_ALL`、`LC_MESSAGES`、`LANG`）；JSON 不随语言变化
help-common-quiet = 只输出结果：不显示进度，也不在标准错误上打印说明
help-common-help-more = 显示帮助（更多内容见 '--help'）
help-common-help-less = 显示帮助（摘要见 '-h'）
help-common-help = 显示帮助
help-common-version = 显示版本号
help-common-verbose = 在标准错误上给出更多细节

# env
help-about-env = 本机有什么 GPU、能不能用、是不是承诺的那张卡
help-env-gpus = 要查看的 GPU：NVML 序号、UUID（或其开头）、PCI 总线地址、MIG UUID；可重复（默认：全部）
help-env-expect = 是不是承诺的那张卡？填 GPU 目录中的编号、别名或名称；不带值时与该卡自己的目录条目比对。不达标则退出码为 1
help-env-python = 任务所用的 Python，或其环境所在的目录（默认：PATH 上的 `python`）
help-env-no-python = 不检查 Python
help-env-bench = 同时实测 GPU：拷贝带宽与矩阵乘，几秒钟；卡上有别人的任务时不测
help-env-replay = 读取已录制的 env 文档，而不是查看本机

# estimate
help-about-estimate = 租卡之前，先估算训练或推理任务的显存
help-estimate-model = config.json、目录、PEFT 适配器目录、.safetensors 或 .gguf 文件；预设名；或 Hub 上的 `org/name`
help-estimate-config = 与把路径写在 MODEL 处相同
help-estimate-params = 只知道参数量时用：按经验法则估算，区间很宽（`7B`、`350M`）
help-estimate-method = 训练方式，或只推理 [默认：full]
help-value-method-full = 训练全部参数
help-value-method-lora = 冻结权重，只训练旁路的低秩适配器
help-value-method-qlora = 在 4 bit 底座上做 LoRA
help-value-method-inference = 先预填充提示词，再生成
help-estimate-task = 模型的用途 [默认：由模型决定]
help-value-task-causal-lm = 预测下一个 token
help-value-task-seq2seq = 编码器-解码器
help-value-task-classification = 每条序列一个标签
help-value-task-vision = 图像
help-estimate-seq = 每条序列的 token 数 [默认：2048，模型上限更低时取上限]
help-estimate-batch = 单卡一个微批的序列数或图像数 [默认：1]
help-estimate-grad-accum = 每个优化器步累积多少个微批 [默认：1]
help-estimate-resolution = 图像边长，像素（视觉模型）[默认：由模型决定]
help-estimate-generate = 提示词之后新生成的 token 数（推理）[默认：32]
help-estimate-param-dtype = 参数以什么类型存放 [默认：full 为 fp32，其余为 bf16]
help-estimate-autocast = 前向传播的混合精度 [默认：full 且参数为 fp32 时、以及 qlora 时为 bf16，其余为 none]
help-estimate-quant = 冻结权重的量化格式 [默认：与检查点的存储形式相同；否则 qlora 为 nf4，其余为 none]
help-value-quant-none = 不量化，按 `--param-dtype`
help-value-quant-nf4 = bitsandbytes NormalFloat：4 bit，每 64 个一组配一个缩放系数
help-value-quant-fp4 = bitsandbytes 4 bit 浮点，布局相同
help-value-quant-int8 = bitsandbytes 的 `LLM.int8()`
help-value-quant-gptq = GPTQ：4 bit，每 128 个权重一组，各有一个 fp16 缩放系数和一个 4 bit 零点
help-value-quant-awq = AWQ：与 GPTQ 相同，但不记输入次序
help-value-quant-fp8 = 每个权重一字节，每 128 x 128 块一个 fp32 缩放系数（推理）
help-estimate-no-double-quant = 4 bit 权重的缩放系数保持 fp32（不做双重量化）
help-estimate-optimizer = 用什么优化器 [默认：adamw]
help-value-optimizer-adamw = 默认设置的 `torch.optim.AdamW`
help-value-optimizer-adamw-fused = 同上，但 `fused=True`
help-value-optimizer-adamw-8bit = bitsandbytes，优化器状态为 8 bit
help-value-optimizer-paged-adamw = bitsandbytes，优化器状态放在驱动可换出到内存的分页显存里
help-value-optimizer-paged-adamw-8bit = 两者兼有
help-estimate-gradient-checkpointing = 梯度检查点：反向时重算激活值，而不是一直留着 [默认：qlora 开启，其余关闭]
help-estimate-no-gradient-checkpointing = 保留全部激活值（关闭梯度检查点）
help-estimate-attention = 注意力的实现 [默认：sdpa]
help-value-attention-sdpa = `scaled_dot_product_attention`
help-value-attention-flash = `flash_attn` 软件包
help-value-attention-eager = 直接做矩阵乘：会保留整个分数矩阵
help-estimate-lora-rank = 适配器的秩（lora、qlora）[默认：16]
help-estimate-lora-targets = `all-linear`，或像 `q_proj,v_proj` 这样的名称列表（lora、qlora）[默认：all-linear]
help-estimate-lora-dropout = 适配器前的 dropout（lora、qlora）[默认：0]
help-estimate-stack = 采用哪个训练框架的默认值：加载类型、优化器、损失算子、升精度、梯度检查点 [默认：plain]
help-value-stack-plain = 围绕 Transformers 模型的普通 PyTorch 循环
help-value-stack-trainer = `transformers.Trainer`
help-value-stack-trl = `trl.SFTTrainer`
help-value-stack-llama-factory = LLaMA-Factory
help-value-stack-axolotl = Axolotl
help-value-stack-unsloth = Unsloth
help-estimate-loss = 词表大小的损失怎么算 [默认：由框架决定]
help-value-loss-full = 一次算出全部 logits，fp32
help-value-loss-chunked = 每次只算一部分 token
help-value-loss-fused = 输出层与损失合成一个算子，显存中没有 logits
help-estimate-gpu = 要放进哪张 GPU：目录编号、别名或名称、`all`、`local`（本机的），或已录制的 env 文档；可重复 [默认：本机有就用 local]
help-estimate-gpus = 共同承担任务的同型号 GPU 数 [默认：1]
help-estimate-zero = DeepSpeed ZeRO 阶段：1 切分优化器状态，2 再切分梯度，3 再切分参数 [默认：0]
help-estimate-fsdp = PyTorch 的完全分片数据并行（FSDP）
help-estimate-memory-limit = 峰值最多可占显存的比例 [默认：85%]
help-estimate-solve = 求能放下的最大批量或序列长度
help-estimate-steps = 训练长度，按优化器步数
help-estimate-epochs = 数据集过几遍；需配合 --samples
help-estimate-samples = 数据集的样本数；需配合 --epochs
help-estimate-tokens = 训练长度，按 token 数（`2B`）
help-estimate-deadline = 必须在多久内完成，如 `72h` 或 `2days`
help-estimate-price = 每张 GPU 每小时的价格
help-estimate-currency = 价格的 ISO 4217 货币代码，如 USD [默认：USD]
help-estimate-calibrate = 同一模型的 probe 文档：用实测值校正估算
help-estimate-probed-batch = 该次 probe 的批量（文档中没写时）[默认：与此处相同]
help-estimate-probed-seq = 该次 probe 的序列长度（文档中没写时）[默认：与此处相同]

# probe
help-about-probe = 照常运行 COMMAND，就像 onecard 不存在，同时记录它对 GPU 做了什么
help-probe-gpus = 要观察的 GPU：NVML 序号、UUID（或其开头）、PCI 总线地址、MIG UUID；可重复（默认：COMMAND 能用的那些）
help-probe-interval = 多久读一次显存，1ms 到 10s；显存变动时会自动加快
help-probe-max-steps = 跑完 N 步后让子进程有序退出；这算成功
help-probe-for = 跑这么久后让子进程有序退出；这算成功
help-probe-warmup = 计算步时间时排除的预热步数：一个数字，或 `auto`
help-probe-step-pattern = 输出里一步长什么样；命名组有 `step`、`total`、`loss`、`lr`、`sec`
help-probe-steps = COMMAND 正好跑 N 步（什么都读不出来时用）
help-probe-no-hook = 不在子进程的 Python 里加载 PyTorch 钩子
help-probe-no-scan = 不读取子进程的输出：它的输出流原样不动
help-probe-checkpoint-dir = 子进程把检查点写在哪里（默认：由钩子找到）
help-probe-recover = 用被杀掉的 probe 留下的日志还原出文档
help-probe-read-log = 不运行命令：读取一次已经跑完的训练的日志（`-` 表示标准输入）
help-probe-exit-code = 那次运行的退出码
help-probe-command = 要运行的命令，写在 `--` 之后
help-heading-recovery = 恢复测试
help-heading-past = 已经跑完的训练
help-probe-recovery = 在检查点之后中断 COMMAND、恢复、比较；其中的 {"{out}"} 代表每次运行自己的目录
help-value-recovery-quick = 中断、恢复，比较两次运行共有的步
help-value-recovery-paired = 另外不中断地跑一次：中断点之后的损失也逐步比较
help-value-recovery-faults = 另外在保存途中杀掉它，并从最新检查点的损坏副本恢复
help-probe-resume-with = 如何恢复任务（一行 shell 命令）；{"{checkpoint}"} 代表最新检查点（默认：再次运行 COMMAND）
help-probe-interrupt = 如何中断运行
help-value-interrupt-kill = 立即杀掉，如同机器丢失
help-value-interrupt-term = 像调度器那样请它结束，通知时间过后杀掉
help-probe-notice = 配合 `--interrupt term`：被杀掉之前可用于保存和结束的时间
help-probe-scratch = 测试的各次运行写到哪里，每次一个目录，结束时删除
help-probe-within = 整个恢复测试的时限：到时停止，并写下已得知的
help-probe-forecast-from = 事先说明恢复测试要多久的 probe 或 estimate 文档；可重复（默认：文档将写到的位置上、同一命令的文档）
help-probe-price = 这台机器每小时的价格，用来说明测试的费用
help-probe-currency = --price 的三字母货币代码

# verdict
help-about-verdict = 这张卡够不够跑这个任务：显存、时间、精度、恢复
help-verdict-env = env 文档（默认：probe 文档里自带的，否则当场读取本机）
help-verdict-estimate = estimate 文档
help-verdict-probes = probe 文档；可重复，每个 rank 或节点一份（默认：`onecard-probe.json`）
help-verdict-example = 评判随 onecard 附带的一份录制好的训练：不需要 GPU
help-verdict-deadline = 整个任务必须在多久内完成，如 `72h`
help-verdict-steps = 整个任务的长度，按优化器步数
help-verdict-epochs = 整个任务的长度，按数据过几遍；需配合 --samples
help-verdict-samples = 数据的样本数；需配合 --epochs
help-verdict-tokens = 整个任务的长度，按 token 数
help-verdict-samples-per-step = 全部 GPU 合计，一个优化器步的样本数（默认：取自 estimate 的计划，否则取钩子所见）
help-verdict-extra = 为 probe 没见到的部分留出的时间：评估、epoch 交界
help-verdict-need = 任务需要的数值格式（默认：estimate 里的，否则训练实际使用的）
help-verdict-memory-limit = 峰值最多可占显存的比例
help-verdict-min-steps = 至少要连续跑多少步
help-verdict-price = 每张 GPU 每小时的价格，如 `2.99`
help-verdict-currency = 价格的三字母货币代码；不做换算
help-verdict-accept = 为某项未通过的标准自行担责，并写明理由；可重复
help-verdict-reports = 另写一份报告，格式由扩展名决定：.html、.md、.json、.xml（JUnit）；可重复

## 示例
help-examples-onecard =
    从这里开始：
      onecard env                                      GPU 能不能用，是否完好
      onecard estimate llama-3.1-8b --gpu rtx-4090     任务放不放得下
      onecard probe --max-steps 60 -- python train.py  实际上怎样使用 GPU
      onecard verdict --deadline 72h --steps 20000     这张卡够不够

    每个命令都有自己的示例：onecard 命令 --help
help-examples-env =
    示例：
      onecard env                            有什么 GPU，Python 用得了吗
      onecard env --expect rtx-5090          是不是租的那张卡
      onecard env --bench --output env.json  实测几秒钟，并保存文档
      onecard env --python ~/venv            检查这个环境里的 Python

    退出码：
      0  有可用的 GPU，且没有检查失败
      1  没有可用的 GPU，或有检查失败
      2  用法或文件有误
help-examples-probe =
    示例：
      onecard probe --max-steps 60 -- python train.py --epochs 3
      onecard probe --for 10min -- torchrun --nproc-per-node 2 train.py
      onecard probe --step-pattern 'iter (?P<step>\d+)' -- ./train.sh
      onecard probe --read-log train.log --exit-code 1
      onecard probe --recovery quick --scratch /tmp/s -- python train.py --out {"{out}"}

    退出码：即 COMMAND 的退出码，或
      128+n  被信号 n 结束
      125    COMMAND 运行之前 onecard 自身失败
      126    无法执行
      127    找不到
help-examples-verdict =
    示例：
      onecard verdict --example
      onecard verdict --deadline 72h --epochs 3 --samples 20000
      onecard verdict --probe rank0.json --probe rank1.json --estimate estimate.json
      onecard verdict --steps 20000 --price 21.5 --currency CNY --report report.html
      onecard verdict --accept recovery="就跑一晚，我自己重启"

    退出码：
      0  四项全部通过
      1  有一项不通过
      2  用法或文件有误
      3  没有不通过的，但证据不全
help-examples-estimate =
    示例：
      onecard estimate llama-3.1-8b --method qlora --gpu rtx-4090
      onecard estimate ./my-model --method lora --seq 4096 --batch 2 --gpu all
      onecard estimate org/name --gpu h100-sxm --epochs 3 --samples 20000 --price 2.5
      onecard estimate resnet50 --gpu rtx-3060 --solve batch
      onecard estimate --params 7B --format json

    退出码：
      0  能放进所问的某张 GPU（或没有问）
      1  哪张都放不下
      2  用法、模型或文件有误
      3  区间跨在上限两侧，无法判断

## 标题，以及 clap 自己会说的话
usage-line = 用法：{ $usage }
help-heading-commands = 命令
help-heading-arguments = 参数
help-heading-options = 选项
help-heading-common = 通用选项
help-heading-run = 任务
help-heading-precision = 精度
help-heading-training = 训练
help-heading-gpu = GPU
help-heading-time = 时间与费用
help-heading-own = 程序自身
help-heading-calibration = 校准
help-default = [默认：{ $value }]
help-values = [可选：{ $values }]
help-possible-values = 可选值：

## 命令行哪里不对
usage-unknown-argument = 无法识别的参数 '{ $arg }'
usage-no-value = '{ $arg }' 需要一个值，但没有给出
usage-invalid-value = '{ $arg }' 的值 '{ $value }' 无效
usage-refused-value = '{ $arg }' 的值 '{ $value }' 无效：{ $why }
usage-extra-value = '{ $arg }' 多了一个值 '{ $value }'
usage-repeated = 参数 '{ $arg }' 不能重复使用
usage-conflict = 参数 '{ $arg }' 不能与 '{ $prior }' 同时使用
usage-conflict-list = 参数 '{ $arg }' 不能与下列参数同时使用：{ $prior }
usage-missing = 缺少必需的参数：{ $missing }
usage-unknown-command = 无法识别的子命令 '{ $name }'
usage-no-command = '{ $name }' 需要一个子命令，但没有给出
usage-not-utf8 = 参数中有无效的 UTF-8
usage-commands = [子命令：{ $names }]
usage-tip = 提示：{ $tip }
usage-similar-command = 有相近的子命令：'{ $name }'
usage-similar-commands = 有几个相近的子命令：{ $names }
usage-similar-argument = 有相近的参数：'{ $name }'
usage-similar-arguments = 有几个相近的参数：{ $names }
usage-similar-value = 有相近的取值：'{ $name }'
usage-similar-values = 有几个相近的取值：{ $names }
usage-pass-as-value = 若要把 '{ $arg }' 当作值传入，请写成 '{ $instead }'
usage-exists = 有 '{ $name }'
usage-more = 详细信息见 '--help'。

## 说不通的取值
value-share = 应为比例，如 `85%` 或 `0.85`
value-share-range = 比例应大于 0 且不超过 100%，如 `85%` 或 `0.85`
value-duration = 应为时长，如 `90s`、`45m`、`72h` 或 `3days`
value-interval = 应在 1ms 到 10s 之间
value-warmup = 应为步数或 `auto`
value-epochs = 应为 epoch 数，如 `3` 或 `0.5`
value-epochs-range = epoch 数应大于 0
value-currency = 应为三字母货币代码，如 `USD`
value-count = 应为数量，如 `7B`、`350M` 或 `125000000`
value-count-range = 数量应不小于 1 且不超过 10^18
value-positive = 应为不小于 1 的整数
value-whole = 应为整数
value-number = 应为数字
value-accept = 应写成 CRITERION=REASON，如 `recovery=数据顺序无所谓`
value-accept-criterion = 标准只有 memory、time、precision 和 recovery 四项
