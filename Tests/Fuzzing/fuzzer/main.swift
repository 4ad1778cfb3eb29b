// The program that scripts/fuzz builds and runs: libFuzzer (https://llvm.org/docs/LibFuzzer.html) over one of `FuzzTarget.all`.
// The environment names it, because the arguments are libFuzzer's. Without a name, the program lists the targets.

import CLibFuzzer
import Dispatch
import FuzzTargets
import Glibc

enum Fuzzing {
    static let name = unsafe getenv("FUZZ_TARGET").map { unsafe String(cString: $0) }
    static let target = FuzzTarget.all.first { $0.name == name }

    /// Checks one input. A disagreement ends the program, which is libFuzzer's finding.
    static func run(_ input: [UInt8]) {
        let isOver = DispatchSemaphore(value: 0)
        // Most checks never suspend, so the task has ended when its initialiser returns.
        Task.immediate {
            do {
                try await target?.check(input)
            } catch {
                fatalError("\(error)")
            }
            isOver.signal()
        }
        isOver.wait()
    }
}

guard Fuzzing.name != nil else {
    for target in FuzzTarget.all {
        print(target.name, target.longest, target.sources.joined(separator: ","), separator: "\t")
    }
    exit(0)
}
guard Fuzzing.target != nil else { fatalError("there is no such target") }

var count = CommandLine.argc
var arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = unsafe CommandLine.unsafeArgv
exit(
    unsafe LLVMFuzzerRunDriver(&count, &arguments) { bytes, size in
        Fuzzing.run(unsafe Array(UnsafeBufferPointer(start: bytes, count: size)))
        return 0
    })
