import TestSupport
import Testing

@testable import WorkerSupervision

@Suite("Generation of Google Pay keys in an HSM token")
struct GooglePayKeyTests {
    @Test(
        "makes one key, which the HSM token lists as a processing key, also if the worker dies",
        arguments: [false, true])
    func generated(dies: Bool) async throws {
        let directory = try await TokenDirectory()
        let hsmToken = try ScriptedToken(directory)
        var settings = HSMTokenSettings.softHSM(directory)
        (settings.module, settings.uri) = (hsmToken.libraryPath, hsmToken.uri)
        settings.environment = hsmToken.environment
        let worker = HSMToken(settings, executable: try .built(), logger: .silent)
        await worker.start()
        try await worker.opened()
        if dies { try hsmToken.play("fault C_SetAttributeValue nth=1 crash once") }
        let key = try await worker.generateKey(.ec, use: .googlePay, merchantIdentifier: "BCR2DN4TEXAMPLE", known: [])
        #expect(hsmToken.hasFired == dies)
        #expect(key.use == .processing && key.label == "BCR2DN4TEXAMPLE")
        #expect(try await worker.listKeys() == [key])
        await worker.shutdown()
    }
}
