import Dispatch

/// Runs what blocks on another thread than those that tasks run on.
package func onThread<Value: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Value
) async throws(Failure) -> Value {
    let result = await withCheckedContinuation { (waiting: CheckedContinuation<Result<Value, Failure>, Never>) in
        DispatchQueue.global().async {
            waiting.resume(returning: Result { () throws(Failure) in try body() })
        }
    }
    return try result.get()
}
