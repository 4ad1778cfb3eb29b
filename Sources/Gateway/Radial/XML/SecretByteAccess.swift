import SecretMemory

// Unsafe: The preconditions keep the index within the secret, and the pointer is used only within the closure.

extension SecretBytes {
    /// Returns one byte without copying the others.
    subscript(index: Int) -> UInt8 {
        get {
            precondition((0..<count).contains(index), "beyond the secret's end")
            return unsafe withUnsafeBytes { unsafe $0[index] }
        }
        set {
            precondition((0..<count).contains(index), "beyond the secret's end")
            unsafe withUnsafeMutableBytes { unsafe $0[index] = newValue }
        }
    }

    /// Returns true if all bytes are ASCII digits.
    var areDigits: Bool {
        for index in 0..<count where !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self[index]) { return false }
        return true
    }
}
