import Glibc

/// Bytes that nobody may see: a PIN, a shared secret, a symmetric key. The worker, the daemon's configuration and the
/// command line keep theirs in it; ``LockedPages`` is the memory, `SecretFile.swift` reads a secret from a file.
///
/// They lie in memory that is locked (never swapped), left out of core dumps and wiped over its whole capacity when
/// the value ends. There is one owner: the type cannot be copied by accident, only by ``duplicate()``. It has no
/// description, is not `Hashable` and not `Codable`, so that it reaches no log and no file.
///
/// Making and ending one costs well under a microsecond; memory is pooled. When the process's limit on locked memory
/// (RLIMIT_MEMLOCK) is used up, further secrets are kept in unlocked memory, which ``unlockedByteCount`` tells.
public struct SecretBytes: ~Copyable, Sendable {
    private let slot: LockedPages.Slot
    /// The number of bytes.
    public private(set) var count: Int

    /// Zeros.
    /// - Parameter count: at least 0.
    public init(count: Int) {
        precondition(count >= 0, "a secret cannot have a negative count")
        slot = LockedPages.lend(count)
        self.count = count
    }

    /// Memory for `capacity` bytes, filled by `fill`, which returns how many of its first bytes are the secret. The
    /// rest is wiped.
    public init<Failure: Error>(
        capacity: Int, filledBy fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        self.init(count: capacity)
        let filled = unsafe try fill(UnsafeMutableRawBufferPointer(start: slot.pointer, count: capacity))
        shrink(to: filled)
    }

    /// A copy of `bytes`. What `bytes` lie in is the caller's to wipe.
    public init(copying bytes: RawSpan) {
        self.init(count: bytes.byteCount)
        let target = unsafe UnsafeMutableRawBufferPointer(start: slot.pointer, count: count)
        unsafe bytes.withUnsafeBytes { unsafe target.copyMemory(from: $0) }
    }

    /// A copy of `bytes`. An array's memory cannot be wiped reliably: for tests and for what is not secret yet.
    public init(copying bytes: [UInt8]) {
        unsafe self.init(copying: bytes.span.bytes)
    }

    deinit {
        LockedPages.takeBack(slot)
    }

    /// The one way to copy a secret, and a visible one.
    public func duplicate() -> SecretBytes {
        withBytes { SecretBytes(copying: $0) }
    }

    /// Lends the bytes for reading.
    public func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe body(RawSpan(_unsafeStart: UnsafeRawPointer(slot.pointer), byteCount: count))
    }

    /// Lends the bytes to a C function for reading. The pointer must not outlive `body`; it is never nil.
    @unsafe
    public func withUnsafeBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe body(UnsafeRawBufferPointer(start: slot.pointer, count: count))
    }

    /// Lends the bytes to a C function for writing. The pointer must not outlive `body`; it is never nil.
    @unsafe
    public mutating func withUnsafeMutableBytes<Result: ~Copyable, Failure: Error>(
        _ body: (UnsafeMutableRawBufferPointer) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try unsafe body(UnsafeMutableRawBufferPointer(start: slot.pointer, count: count))
    }

    /// Keeps the first `newCount` bytes and wipes the others.
    /// - Parameter newCount: 0 to ``count``.
    public mutating func shrink(to newCount: Int) {
        precondition(newCount >= 0 && newCount <= count, "a secret can only become shorter")
        unsafe explicit_bzero(slot.pointer + newCount, count - newCount)
        count = newCount
    }

    /// How many bytes of the process's secret memory are not locked, because the limit on locked memory is used up:
    /// 0 when all is well.
    public static var unlockedByteCount: Int { LockedPages.usage.unlocked }
}
