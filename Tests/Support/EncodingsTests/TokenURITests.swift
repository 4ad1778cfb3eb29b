import Encodings
import Testing

@Suite("PKCS#11 URIs of HSM tokens, RFC 7512")
struct TokenURITests {
    private func failure(_ text: String) -> TokenURIError? {
        do {
            _ = try TokenURI(text)
            return nil
        } catch {
            return error
        }
    }

    @Test("Reads and percent-decodes label, serial number, manufacturer and model")
    func attributes() throws {
        // This URI is the fourth example of RFC 7512 §3 without its object, but with a serial number.
        let uri = try TokenURI(
            "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,%20Inc.;model=1.0;"
                + "serial=4a7f?pin-source=file:/etc/token_pin")
        #expect(uri.label == "The Software PKCS#11 Softtoken")
        #expect(uri.manufacturer == "Snake Oil, Inc.")
        #expect(uri.model == "1.0")
        #expect(uri.serialNumber == "4a7f")
        #expect(uri.pinFile == "/etc/token_pin")
    }

    @Test(
        "Decodes RFC 7512's examples with percent signs, semicolons and non-ASCII letters",
        arguments: [
            ("pkcs11:token=My%20token%25%20created%20by%20Joe", "My token% created by Joe"),
            ("pkcs11:token=A%20substring%20%25%3B", "A substring %;"),
            ("pkcs11:token=A%20with%20acute:%20%C3%A1", "A with acute: \u{E1}"),
            ("PKCS11:token=a-b._~:[]@!$'()*+,=&c", "a-b._~:[]@!$'()*+,=&c"),
        ])
    func decoding(text: String, label: String) throws {
        #expect(try TokenURI(text).label == label)
    }

    @Test(
        "Reads the PIN file's absolute path, with or without the prefix file:",
        arguments: [
            "/etc/pin", "file:/etc/pin", "file:///etc/pin",
        ])
    func pinSource(source: String) throws {
        #expect(try TokenURI("pkcs11:token=a?pin-source=\(source)").pinFile == "/etc/pin")
    }

    @Test(
        "Refuses a command, a relative path or another host as the PIN file",
        arguments: [
            "|/usr/bin/getpin", "pin", "file:pin", "file://host/etc/pin", "//host/pin", "https://host/pin",
        ])
    func badPINSource(source: String) {
        #expect(failure("pkcs11:token=a?pin-source=\(source)") == .pinSourceNotAFile)
    }

    @Test("Refuses a PIN in the URI without repeating it in the error")
    func pinValue() {
        let error = failure("pkcs11:token=a?pin-value=the-pin")
        #expect(error == .pinValue)
        #expect(error.map { !"\($0)".contains("the-pin") } == true)
    }

    @Test(
        "Refuses attributes that name a slot, with a specific error",
        arguments: ["slot-id=0", "slot-description=Sun%20Metaslot", "slot-manufacturer=x"])
    func slots(attribute: String) {
        let name = String(attribute.prefix { $0 != "=" })
        #expect(failure("pkcs11:\(attribute)") == .slot(name))
        #expect(failure("pkcs11:token=a;\(attribute)") == .slot(name))
    }

    @Test(
        "Refuses attributes that name an object, a library or a module",
        arguments: [
            "pkcs11:object=my-pubkey;type=public", "pkcs11:token=a;type=private", "pkcs11:token=a;id=%01",
            "pkcs11:library-manufacturer=Snake%20Oil", "pkcs11:token=a?module-path=/lib/x.so",
            "pkcs11:token=a?module-name=x",
        ])
    func objects(text: String) {
        guard case .notAToken = failure(text) else {
            Issue.record("taken: \(text)")
            return
        }
    }

    @Test(
        "Refuses unknown and vendor-specific attributes, and names them",
        arguments: [
            ("pkcs11:token=a;vend-aaa=b", "vend-aaa"), ("pkcs11:token=a?vend-bbb=b", "vend-bbb"),
            ("pkcs11:Token=a", "Token"), ("pkcs11:token=a;pin-source=/etc/pin", "pin-source"),
        ])
    func unknown(text: String, name: String) {
        #expect(failure(text) == .unknown(name))
    }

    @Test(
        "Refuses a repeated attribute",
        arguments: [
            ("pkcs11:token=a;token=a", "token"), ("pkcs11:serial=1;token=a;serial=1", "serial"),
            ("pkcs11:token=a?pin-source=/a&pin-source=/a", "pin-source"),
        ])
    func duplicates(text: String, name: String) {
        #expect(failure(text) == .duplicate(name))
    }

    @Test(
        "Refuses a URI that names no HSM token",
        arguments: ["pkcs11:", "pkcs11:manufacturer=a", "pkcs11:?pin-source=/etc/pin"])
    func noToken(text: String) {
        #expect(failure(text) == .namesNoToken)
    }

    @Test(
        "Refuses a URI with another scheme or without one",
        arguments: ["", "token=a", "pkcs12:token=a", "https://a", " pkcs11:token=a", "p\u{212A}cs11:token=a"])
    func scheme(text: String) {
        #expect(failure(text) == .notPKCS11)
    }

    @Test(
        "Refuses parts that are not name=value",
        arguments: [
            "pkcs11:token", "pkcs11:token=a;", "pkcs11:;token=a", "pkcs11:=a", "pkcs11:to ken=a",
            "pkcs11:token=a?pin-source",
        ])
    func malformed(text: String) {
        #expect(failure(text) == .malformed)
    }

    @Test("Refuses broken percent-encoding and characters that require it")
    func encoding() {
        for text in ["%", "%4", "%4x", "a%", "%%41"] {
            #expect(failure("pkcs11:token=\(text)") == .percentEncoding("token"))
        }
        for text in ["my token", "a#b", "a\u{E1}", "a\"b", "a/b"] {
            #expect(failure("pkcs11:token=\(text)") == .mustBeEncoded("token"))
        }
        for text in ["%FF", "%C3", "a%00"] { #expect(failure("pkcs11:token=\(text)") == .notText("token")) }
    }

    @Test("Refuses empty values, and values longer than PKCS#11 permits")
    func lengths() throws {
        #expect(failure("pkcs11:token=") == .wrongLength("token", longest: 32))
        #expect(failure("pkcs11:token=\(String(repeating: "a", count: 33))") == .wrongLength("token", longest: 32))
        #expect(failure("pkcs11:serial=\(String(repeating: "a", count: 17))") == .wrongLength("serial", longest: 16))
        #expect(failure("pkcs11:token=\(String(repeating: "a", count: 2000))") == .tooLong)
        #expect(try TokenURI("pkcs11:token=\(String(repeating: "a", count: 32))").label?.count == 32)
    }

    @Test(
        "Gives the worker a URI without the query, which names the same HSM token",
        arguments: [
            "pkcs11:token=paytokend", "PKCS11:token=pay%20tokend;serial=1a?pin-source=file:/etc/paytokend/pin",
            "pkcs11:serial=4a7f;model=1.0;manufacturer=Snake%20Oil,%20Inc.?pin-source=/etc/pin",
            "pkcs11:token=a%3Fb;serial=%31",
        ])
    func withoutQuery(text: String) throws {
        let read = try TokenURI(text)
        let handedOver = try TokenURI(read.withoutQuery)
        #expect(handedOver.pinFile == nil)
        #expect(handedOver.label == read.label && handedOver.serialNumber == read.serialNumber)
        #expect(handedOver.manufacturer == read.manufacturer && handedOver.model == read.model)
        #expect(handedOver.withoutQuery == read.withoutQuery)
    }

    @Test("Never repeats a value of the URI in an error message")
    func messages() {
        for text in [
            "pkcs11:token=secret;token=secret", "pkcs11:token=secret%zz", "pkcs11:token=secret value",
            "pkcs11:token=secret%FF",
            "pkcs11:token=a;slot-id=secret", "pkcs11:token=a;object=secret", "pkcs11:token=a?pin-source=secret",
        ] {
            #expect(failure(text).map { !"\($0)".contains("secret") } == true, "\(text)")
        }
    }
}
