import PKCS11
import TestSupport
import Testing

@Suite("Loading a PKCS#11 library")
struct ModuleTests {
    private func failure(_ path: String) -> ModuleError? {
        do {
            _ = try Module(path: path)
            return nil
        } catch {
            return error
        }
    }

    @Test("A relative path or a bare name is not looked up")
    func relative() {
        #expect(failure("libsofthsm2.so") == .pathNotAbsolute("libsofthsm2.so"))
        #expect(failure("./a.so") == .pathNotAbsolute("./a.so"))
        #expect(failure("") == .pathNotAbsolute(""))
    }

    @Test("A file that is not there is refused with the loader's reason")
    func missing() {
        guard case .notLoadable(let path, let reason) = failure("/nonexistent/p11.so") else {
            Issue.record("loaded")
            return
        }
        #expect(path == "/nonexistent/p11.so")
        #expect(reason.contains("No such file"))
    }

    @Test("A library that is not a PKCS#11 library is refused")
    func otherLibrary() {
        #expect(failure("/lib/x86_64-linux-gnu/libm.so.6") == .noFunctionList(path: "/lib/x86_64-linux-gnu/libm.so.6"))
    }

    @Test("The library says who made it")
    func info() throws {
        let info = try SoftHSM.shared().module.info()
        #expect(info.manufacturer == "SoftHSM")
        #expect(info.libraryDescription == "Implementation of PKCS11")
        #expect(info.libraryVersion.description.hasPrefix("2."))
        #expect(info.cryptokiVersion.major == 2)
    }

    @Test("A second initialisation in one process is an error with its name")
    func twice() throws {
        _ = try SoftHSM.shared()
        #expect(
            failure(SoftHSM.libraryPath)
                == .call(CallError(call: "C_Initialize", cause: .returned(.cryptokiAlreadyInitialized))))
    }
}
