import PKCS11
import Testing

@Suite("What went wrong in the library")
struct CallErrorTests {
    @Test(
        "An error says the call and the return value's standard name",
        arguments: [
            // PKCS#11 v2.40 base §6.1 and v3.0's pkcs11t.h.
            (0xA0, "CKR_PIN_INCORRECT"), (0x5, "CKR_GENERAL_ERROR"), (0x101, "CKR_USER_NOT_LOGGED_IN"),
            (0x40, "CKR_ENCRYPTED_DATA_INVALID"), (0x82, "CKR_OBJECT_HANDLE_INVALID"),
            (0x191, "CKR_CRYPTOKI_ALREADY_INITIALIZED"), (0x42, "CKR_AEAD_DECRYPT_FAILED"),
        ] as [(UInt, String)])
    func names(value: UInt, name: String) {
        let error = CallError(call: "C_Login", cause: .returned(ReturnValue(rawValue: value)))
        #expect(error.description == "C_Login: \(name)")
    }

    @Test("A return value without a standard name is shown in hexadecimal")
    func unknown() {
        #expect(ReturnValue(rawValue: 0x8000_0001).description == "CKR 0x80000001")
        #expect(ReturnValue(rawValue: 0xABC).description == "CKR 0xabc")
    }
}
