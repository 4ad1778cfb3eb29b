internal import CLibcrypto

/// libcrypto's memory, wiped when it is freed: its decoders leave pieces of private keys and passwords behind otherwise.
enum WipedLibcrypto {
    /// To be read before any secret goes in. False when libcrypto was in use before, and keeps its habits.
    static let isInstalled = clibcrypto_wipe_freed_memory() == 1
}
