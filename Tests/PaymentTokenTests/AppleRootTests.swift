import Crypto
import Foundation
import PaymentToken
import Testing
import X509

@Suite("Apple Root CA - G3")
struct AppleRootTests {
    @Test("The built-in root has the fingerprint that Apple publishes, and is self-signed with P-384")
    func fingerprint() throws {
        // https://www.apple.com/certificateauthority
        let published =
            "63:34:3A:BF:B8:9A:6A:03:EB:B5:7E:9B:3F:5F:A7:BE:7C:4F:5C:75:6F:30:17:B3:A8:C4:88:C3:65:3E:91:79"
        let expected = published.split(separator: ":").compactMap { digits in UInt8(digits, radix: 16) }
        #expect(AppleRootCAG3.der.count == 583)
        #expect(Array(SHA256.hash(data: AppleRootCAG3.der)) == expected)
        let root = try AppleRootCAG3.certificate()
        #expect(root.subject.description == "C=US,O=Apple Inc.,OU=Apple Certification Authority,CN=Apple Root CA - G3")
        #expect(root.subject == root.issuer)
        #expect(root.publicKey.isValidSignature(root.signature, for: root))
        #expect(P384.Signing.PublicKey(root.publicKey) != nil)
    }

    @Test(
        "The Swift toolchain trusts the same bytes for signed packages",
        .enabled(if: swiftPackageProgram() != nil, "no swift-package program on the PATH"))
    func toolchain() throws {
        let program = try Data(contentsOf: try #require(swiftPackageProgram()), options: .mappedIfSafe)
        #expect(program.firstRange(of: Data(AppleRootCAG3.der)) != nil)
    }
}

/// `swift-package` on the PATH, or beside the program that `swift` there leads to.
private func swiftPackageProgram() -> URL? {
    let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
    let directories = path.split(separator: ":").map { directory in URL(filePath: String(directory)) }
    let beside = directories.map { directory in
        directory.appending(path: "swift").resolvingSymlinksInPath().deletingLastPathComponent()
    }
    return (directories + beside).map { directory in directory.appending(path: "swift-package") }
        .first { file in FileManager.default.isReadableFile(atPath: file.path) }
}
