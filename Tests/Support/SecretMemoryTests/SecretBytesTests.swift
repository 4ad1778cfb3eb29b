import Foundation
import SecretMemory
import Testing

@Suite("SecretBytes")
struct SecretBytesTests {
    private func bytes(_ secret: borrowing SecretBytes) -> [UInt8] {
        unsafe secret.withUnsafeBytes { unsafe Array($0) }
    }

    @Test("Fills a new secret with zeros, also in memory that an earlier secret used")
    func zeros() {
        for _ in 0..<200 {
            var secret = SecretBytes(count: 16384)
            #expect(bytes(secret).allSatisfy { $0 == 0 })
            unsafe secret.withUnsafeMutableBytes { buffer in
                for index in buffer.indices { unsafe buffer[index] = 0xAA }
            }
        }
    }

    @Test("Locks the memory, excludes it from core dumps, and wipes it in a forked child")
    func pageFlags() throws {
        let secret = SecretBytes(count: 32)
        let address = unsafe secret.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
        // A FileHandle reads to the end, although files under /proc report a size of 0.
        let file = try #require(FileHandle(forReadingAtPath: "/proc/self/smaps"))
        let maps = String(decoding: try #require(try file.readToEnd()), as: UTF8.self)
        var flags: [Substring]?
        var inside = false
        for line in maps.split(separator: "\n") {
            let words = line.split(separator: " ")
            let range = words[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
            if range.count == 2 { inside = (range[0]..<range[1]).contains(address) }
            if inside, words[0] == "VmFlags:" { flags = Array(words.dropFirst()) }
        }
        let found = try #require(flags)
        // The flags' names are from Linux's Documentation/filesystems/proc.rst.
        #expect(found.contains("dd"), "not left out of dumps")
        #expect(found.contains("wf"), "not wiped on fork")
        // The runtimes of scripts/sanitize report success for mlock(2) and do not lock.
        if ProcessInfo.processInfo.environment["PAYTOKEND_SANITIZER"] == nil {
            #expect(found.contains("lo") || SecretBytes.unlockedByteCount > 0, "neither locked nor counted as unlocked")
        }
        withExtendedLifetime(bytes(secret)) {}
    }

    @Test("Keeps the first bytes when it shrinks, and wipes the others")
    func shrink() {
        var secret = SecretBytes(copying: [UInt8](1...64))
        secret.shrink(to: 16)
        #expect(secret.count == 16)
        #expect(bytes(secret) == Array(1...16))
        // The secret's memory is larger than the secret, so reading the bytes after it is safe.
        let behind = unsafe secret.withUnsafeBytes { buffer in
            unsafe Array(UnsafeRawBufferPointer(start: buffer.baseAddress, count: 64))[16...]
        }
        #expect(behind.allSatisfy { $0 == 0 })
    }

    @Test("Cuts off and wipes the bytes that a filling closure does not use")
    func filled() {
        let secret = unsafe SecretBytes(capacity: 100) { buffer in
            for index in buffer.indices { unsafe buffer[index] = 7 }
            return 3
        }
        #expect(bytes(secret) == [7, 7, 7])
        let behind = unsafe secret.withUnsafeBytes { buffer in
            unsafe UnsafeRawBufferPointer(start: buffer.baseAddress, count: 100)[3]
        }
        #expect(behind == 0)
    }

    @Test("Gives a duplicate separate memory")
    func duplicate() {
        var secret = SecretBytes(copying: [1, 2, 3])
        let copy = secret.duplicate()
        unsafe secret.withUnsafeMutableBytes { unsafe $0[0] = 9 }
        #expect(bytes(copy) == [1, 2, 3])
        #expect(bytes(secret) == [9, 2, 3])
    }

    @Test("Never shares memory between secrets made on many threads at once")
    func threads() {
        DispatchQueue.concurrentPerform(iterations: 16) { thread in
            for round in 0..<500 {
                let pattern = [UInt8](repeating: UInt8(thread), count: 1 + round % 300)
                let first = SecretBytes(copying: pattern)
                let second = SecretBytes(copying: pattern.map { ~$0 })
                #expect(bytes(first) == pattern)
                #expect(bytes(second) == pattern.map { ~$0 })
            }
        }
    }
}
