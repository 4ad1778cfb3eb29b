import KeyRestoration

extension P256Point {
    /// Not every token checks the point, and one off the curve would give the private key away bit by bit.
    init(checking bytes: [UInt8]) throws(RestorationError) {
        do {
            try self.init(uncompressed: bytes)
        } catch {
            throw .input
        }
    }
}
