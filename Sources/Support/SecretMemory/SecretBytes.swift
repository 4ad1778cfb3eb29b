import Glibc
import Synchronization

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
        LockedPages.reclaim(slot)
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

/// Where secrets lie: pages that are locked in memory (never swapped), left out of core dumps and empty in a forked
/// child. They are cut into slots of a few sizes, and a slot that is given back is wiped and used again, because two
/// system calls a secret would cost more than what the secret is used for.
///
/// Pages are kept once mapped: the pool stays as large as the process has ever needed it.
package enum LockedPages {
    /// What the pool holds now, in bytes.
    package struct Usage: Sendable, Equatable {
        /// Locked in memory.
        package var locked = 0
        /// Mapped, but refused by the limit on locked memory (RLIMIT_MEMLOCK): wiped and kept out of dumps all the
        /// same, but the kernel may swap it. To be warned about.
        package var unlocked = 0
        /// In slots that are lent out.
        package var lent = 0
    }

    /// A lent piece of memory. An address and not a pointer, so that it may be sent between threads.
    struct Slot: Sendable {
        let address: UInt
        let capacity: Int

        var pointer: UnsafeMutableRawPointer {
            // The address comes from `UnsafeMutableRawPointer` and is never zero.
            unsafe UnsafeMutableRawPointer(bitPattern: address).unsafelyUnwrapped
        }
    }

    /// A symmetric key, a PIN or a shared secret fits the first, an RSA block or a PKCS#8 key the second, a
    /// transaction's payment data the third. What is larger gets pages of its own, unmapped when given back.
    private static let slotSizes = [128, 2048, 16384]
    private static let chunkSize = 65536

    private struct State {
        var free: [[UInt]] = Array(repeating: [], count: slotSizes.count)
        var usage = Usage()
    }

    private static let state = Mutex(State())

    package static var usage: Usage { state.withLock { $0.usage } }

    /// Zeroed memory of at least `count` bytes.
    static func lend(_ count: Int) -> Slot {
        state.withLock { state in
            guard let sizeClass = slotSizes.firstIndex(where: { count <= $0 }) else {
                let slot = map(count, &state.usage)
                state.usage.lent += slot.capacity
                return slot
            }
            let size = slotSizes[sizeClass]
            if state.free[sizeClass].isEmpty {
                let chunk = map(chunkSize, &state.usage)
                state.free[sizeClass] = stride(from: 0, to: chunkSize, by: size).map { chunk.address + UInt($0) }
            }
            state.usage.lent += size
            return Slot(address: state.free[sizeClass].removeLast(), capacity: size)
        }
    }

    /// Wipes the whole slot and takes it back.
    static func reclaim(_ slot: Slot) {
        unsafe explicit_bzero(slot.pointer, slot.capacity)
        state.withLock { state in
            state.usage.lent -= slot.capacity
            if let sizeClass = slotSizes.firstIndex(of: slot.capacity) {
                state.free[sizeClass].append(slot.address)
            } else {
                unmap(slot, &state.usage)
            }
        }
    }

    private static func map(_ count: Int, _ usage: inout Usage) -> Slot {
        let pageSize = sysconf(Int32(_SC_PAGESIZE))
        let size = (count + pageSize - 1) / pageSize * pageSize
        let pages = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let pages = unsafe pages, unsafe pages != MAP_FAILED else {
            // Out of memory: Swift's own allocations end the process too.
            preconditionFailure("no memory for secrets")
        }
        // Best effort beside the lock: both only fail on kernels that do not know the advice.
        _ = unsafe madvise(pages, size, MADV_DONTDUMP)
        _ = unsafe madvise(pages, size, MADV_WIPEONFORK)
        if unsafe mlock(pages, size) == 0 {
            usage.locked += size
        } else {
            usage.unlocked += size
        }
        return Slot(address: UInt(bitPattern: pages), capacity: size)
    }

    private static func unmap(_ slot: Slot, _ usage: inout Usage) {
        // Whether these pages were locked is not kept a slot; the kernel unlocks with the unmapping.
        if unsafe munmap(slot.pointer, slot.capacity) == 0 {
            if usage.locked >= slot.capacity {
                usage.locked -= slot.capacity
            } else {
                usage.unlocked -= slot.capacity
            }
        }
    }
}
