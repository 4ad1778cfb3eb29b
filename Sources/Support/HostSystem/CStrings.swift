import Glibc

// Unsafe: The copies live until `body` returns, and are freed after it.

/// Calls `body` with the strings as a C array that ends in NULL, valid during the call.
package func withCStrings<Result>(
    _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var copies: [UnsafeMutablePointer<CChar>?] = unsafe strings.map { unsafe strdup($0) }
    unsafe copies.append(nil)
    defer { for index in unsafe copies.indices { unsafe free(copies[index]) } }
    return unsafe copies.withUnsafeBufferPointer { buffer in
        // The array is not empty, since it ends in nil, so it has an address.
        unsafe body(buffer.baseAddress.unsafelyUnwrapped)
    }
}
