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

    @Test("refuses a relative path and a bare file name")
    func relative() {
        #expect(failure("libsofthsm2.so") == .pathNotAbsolute("libsofthsm2.so"))
        #expect(failure("./a.so") == .pathNotAbsolute("./a.so"))
        #expect(failure("") == .pathNotAbsolute(""))
    }

    @Test("refuses a missing file, and gives the dynamic loader's reason")
    func missing() {
        guard case .notLoadable(let path, let reason) = failure("/nonexistent/p11.so") else {
            Issue.record("loaded")
            return
        }
        #expect(path == "/nonexistent/p11.so")
        #expect(reason.contains("No such file"))
    }

    @Test("refuses a shared library that is not a PKCS#11 library")
    func otherLibrary() {
        #expect(failure("/lib/x86_64-linux-gnu/libm.so.6") == .noFunctionList(path: "/lib/x86_64-linux-gnu/libm.so.6"))
    }

    @Test("reads the library's manufacturer")
    func info() throws {
        let info = try SoftHSM.shared().module.info()
        #expect(info.manufacturer == "SoftHSM")
        #expect(info.libraryDescription == "Implementation of PKCS11")
        #expect(info.libraryVersion.description.hasPrefix("2."))
        #expect(info.cryptokiVersion.major == 2)
    }

    @Test("fails with CKR_CRYPTOKI_ALREADY_INITIALIZED at a second initialisation in one process")
    func twice() throws {
        _ = try SoftHSM.shared()
        #expect(
            failure(SoftHSM.libraryPath)
                == .call(CallError(call: "C_Initialize", cause: .returned(.cryptokiAlreadyInitialized))))
    }
}

@Suite("Errors of the PKCS#11 library")
struct CallErrorTests {
    @Test(
        "describes an error with the call and the standard name of the return value",
        arguments: [
            // The names come from PKCS#11 v2.40 base §6.1 and from v3.0's pkcs11t.h.
            (0xA0, "CKR_PIN_INCORRECT"), (0x5, "CKR_GENERAL_ERROR"), (0x101, "CKR_USER_NOT_LOGGED_IN"),
            (0x40, "CKR_ENCRYPTED_DATA_INVALID"), (0x82, "CKR_OBJECT_HANDLE_INVALID"),
            (0x191, "CKR_CRYPTOKI_ALREADY_INITIALIZED"), (0x42, "CKR_AEAD_DECRYPT_FAILED"),
        ] as [(UInt, String)])
    func names(value: UInt, name: String) {
        let error = CallError(call: "C_Login", cause: .returned(ReturnValue(rawValue: value)))
        #expect(error.description == "C_Login: \(name)")
    }

    @Test("describes a return value without a standard name in hexadecimal")
    func unknown() {
        #expect(ReturnValue(rawValue: 0x8000_0001).description == "CKR 0x80000001")
        #expect(ReturnValue(rawValue: 0xABC).description == "CKR 0xabc")
    }
}
