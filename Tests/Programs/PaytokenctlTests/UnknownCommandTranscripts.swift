import TestSupport
import Testing

@Suite("Transcripts: unknown commands")
struct UnknownCommandTranscripts {
    @Test(
        "names the unknown word and the probable command",
        arguments: [
            ("paytokenctl", ["keys", "list"], "there is no command paytokenctl keys; did you mean paytokenctl key?"),
            ("paytokenctl", ["help", "keys"], "there is no command paytokenctl keys; did you mean paytokenctl key?"),
            ("paytokenctl", ["keys", "--help"], "there is no command paytokenctl keys; did you mean paytokenctl key?"),
            (
                "paytokenctl", ["key", "lst", "--expiring", "60d"],
                "there is no command paytokenctl key lst; did you mean paytokenctl key list?"
            ),
            (
                "paytokenctl", ["help", "csr", "xyzzy"],
                "there is no command paytokenctl csr xyzzy; the commands are create."
            ),
            (
                "paytoken-gateway", ["payments", "list"],
                "there is no command paytoken-gateway payments; did you mean paytoken-gateway payment?"
            ),
            (
                "paytoken-gateway", ["help", "newkey"],
                "there is no command paytoken-gateway newkey; did you mean paytoken-gateway new-key?"
            ),
        ])
    func unknown(program: String, words: [String], message: String) async throws {
        let result = try await Program.run(try Program.built(program), words)
        #expect(result.status == 64 && result.output.isEmpty)
        #expect(result.error.hasPrefix("Error: \(message) See "), "\(result)")
    }

    @Test("prints the usual messages for the help of a command and for wrong options")
    func known() async throws {
        let help = try await Command.paytokenctl(["help", "key", "list"])
        #expect(help.status == 0 && help.output.contains("USAGE: paytokenctl key list"))
        let option = try await Command.paytokenctl(["key", "list", "--wyde"])
        #expect(option.status == 64 && option.error.contains("Unknown option '--wyde'. Did you mean '--wide'?"))
    }
}
