/// What a process calls itself (proc(5), /proc/pid/comm); it can call itself anything.
enum ProcessName {
    /// nil where the process is gone or may not be looked at, or its name is not UTF-8.
    static func of(process pid: Int32) -> String? {
        ProcessFile.text("comm", of: pid).map { String($0.trimmingTrailingNewline) }
    }
}
