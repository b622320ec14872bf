# 各命令共用的句子。

file-not-found = 无法读取 `{ $path }`：文件不存在
file-unreadable = 无法读取 `{ $path }`：{ $cause }
file-too-large = 无法读取 `{ $path }`：超过 { $limit }
file-is-folder = 无法读取 `{ $path }`：它是一个目录
file-not-utf8 = 无法读取 `{ $path }`：不是 UTF-8 文本
file-unwritable = 无法写入 `{ $path }`：{ $cause }
file-unwritable-hint = 用 --output 换一个位置
document-unreadable = `{ $path }`：{ $cause }
document-hint = 这种文件由 `onecard { $kind } --output FILE` 生成
document-newer-hint = 升级 onecard，或用当前版本重新生成该文档
document-not-json = 不是 JSON：{ $what }（第 { $line } 行第 { $column } 列）
document-foreign = 不是 onecard 文档：缺少 `kind`、`schema` 和 `body`
document-wrong-kind = 这是 `{ $found }` 文档，此处需要 `{ $wanted }` 文档
document-newer = 文档的 schema 版本是 { $found }，当前 onecard 最高支持 { $known }
document-older = 文档的 schema 版本是 { $found }，没有任何正式发布的 onecard 用过它
document-bad-body = 无法读取 body：{ $what }
document-bad-capability = `{ $text }` 不是计算能力
document-no-count = `{ $value }` 既不是数量也不是列表
document-no-names = `{ $value }` 不是名称列表

# 操作系统的说法。
system-not-found = 文件或目录不存在
system-permission = 权限不足
system-read-only = 文件系统只读
system-full = 磁盘空间不足
system-not-a-folder = 不是目录
system-refused = 连接被拒绝
system-reset = 连接被重置
system-unreachable = 网络不可达
system-timeout = 超时
system-no-host = 没有这个主机，或没有网络
json-ends = 内容不完整
json-mistake = 语法有误（{ $said }）
json-at = { $what }（第 { $line } 行第 { $column } 列）

line-error = 错误：{ $text }
line-hint = 提示：{ $text }
line-note = 注意：{ $text }
no-value = –
labelled = { $label }：{ $value }
interval-bytes = { $expected }（{ $low } – { $high }）

# 程序关于自身所写的。
own-man-written = 手册页在 { $folder }：`man -l { $folder }/onecard.1`
own-with-command = --completions、--man 和 --licenses 只能单独使用，不能与命令一起
