import Glibc

/// How many bytes were written into this socket, and its peer has not read yet; with the kernel's own, so that only zero
/// is exact. For a Unix socket.
public func bytesNotRead(fromPeerOf descriptor: CInt) -> Int {
    var count: CInt = 0
    // SIOCOUTQ, which is this one by another name.
    let result = unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count)
    return result == 0 ? Int(count) : 0
}
