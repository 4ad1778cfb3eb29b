import Glibc
import Locks

// Unsafe: A slot has one owner, which returns it in deinit, so that its address is valid for `capacity` bytes while
// a value has it.

/// Secret bytes: a PIN, a shared secret, a symmetric key. The worker, the daemon's configuration and the command line
/// keep their secrets in this type. ``LockedPages`` provides the memory; `SecretFile.swift` reads a secret from a file.
///
/// The memory is locked (never swapped), excluded from core dumps, and wiped over its whole capacity when the value
/// ends. The value has one owner: it can be copied only with ``duplicate()``, never by accident. It has no description
/// and is neither `Hashable` nor `Codable`, so that it cannot reach a log or a file.
///
/// Creating and destroying one takes well under a microsecond, because memory is pooled. When the process's limit on
/// locked memory (RLIMIT_MEMLOCK) is used up, further secrets are kept in unlocked memory; ``unlockedByteCount`` counts
/// them.
public struct SecretBytes: ~Copyable, Sendable {
    private let slot: LockedPages.Slot
    /// The number of bytes.
    public private(set) var count: Int

    /// Creates a secret whose bytes are all 0.
    /// - Parameter count: the number of bytes; at least 0.
    public init(count: Int) {
        precondition(count >= 0, "a secret cannot have a negative count")
        slot = LockedPages.lend(count)
        self.count = count
    }

    /// Allocates memory for `capacity` bytes. `fill` fills it and returns the length of the secret, which is at the
    /// beginning; the rest is wiped.
    public init<Failure: Error>(
        capacity: Int, filledBy fill: (UnsafeMutableRawBufferPointer) throws(Failure) -> Int
    ) throws(Failure) {
        self.init(count: capacity)
        let filled = unsafe try fill(UnsafeMutableRawBufferPointer(start: slot.pointer, count: capacity))
        shrink(to: filled)
    }

    /// Copies `bytes`. The caller must wipe the original.
    public init(copying bytes: RawSpan) {
        self.init(count: bytes.byteCount)
        let target = unsafe UnsafeMutableRawBufferPointer(start: slot.pointer, count: count)
        unsafe bytes.withUnsafeBytes { unsafe target.copyMemory(from: $0) }
    }

    /// Copies `bytes`. An array's memory cannot be wiped reliably, so this is for tests and for data that is not yet
    /// secret.
    public init(copying bytes: [UInt8]) {
        unsafe self.init(copying: bytes.span.bytes)
    }

    deinit {
        LockedPages.reclaim(slot)
    }

    /// Copies the secret. There is no other way to copy one.
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

    /// The number of bytes of the process's secret memory that are not locked, because the limit on locked memory is
    /// used up; normally 0.
    public static var unlockedByteCount: Int { LockedPages.usage.unlocked }
}

/// The memory of secrets: pages that are locked in memory (never swapped), excluded from core dumps and empty in a
/// forked child. They are divided into slots of a few sizes. A returned slot is wiped and reused, because two system
/// calls for each secret would cost more than the work done with it.
///
/// The pool keeps its pages: it stays as large as the process has ever needed.
package enum LockedPages {
    /// The size of the pool now, in bytes.
    package struct Usage: Sendable, Equatable {
        /// Bytes locked in memory.
        package var locked = 0
        /// Bytes mapped but not locked, because of the limit on locked memory (RLIMIT_MEMLOCK). They are also wiped and
        /// excluded from dumps, but the kernel may swap them. The program should warn about them.
        package var unlocked = 0
        /// Bytes in slots that are in use.
        package var lent = 0
    }

    /// A piece of memory in use. It contains an address instead of a pointer, so that it can be sent between threads.
    struct Slot: Sendable {
        let address: UInt
        let capacity: Int

        var pointer: UnsafeMutableRawPointer {
            // The address comes from `UnsafeMutableRawPointer`, so it is never zero.
            unsafe UnsafeMutableRawPointer(bitPattern: address).unsafelyUnwrapped
        }
    }

    /// The first size fits a symmetric key, a PIN or a shared secret. The second fits an RSA block or a PKCS#8 key,
    /// the third a transaction's payment data. A larger secret gets its own pages, which are unmapped when returned.
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

    /// Wipes the whole slot and returns it to the pool.
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
            // Out of memory. Swift's own allocations also end the process in this case.
            preconditionFailure("no memory for secrets")
        }
        // Best effort, in addition to the lock: both calls fail only on kernels that do not support the advice.
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
        // The slot does not record if these pages were locked; unmapping also unlocks them.
        if unsafe munmap(slot.pointer, slot.capacity) == 0 {
            if usage.locked >= slot.capacity {
                usage.locked -= slot.capacity
            } else {
                usage.unlocked -= slot.capacity
            }
        }
    }
}
