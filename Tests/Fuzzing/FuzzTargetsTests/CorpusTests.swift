import Foundation
import FuzzTargets
import Testing

@Suite("Corpora of the fuzzer")
struct CorpusTests {
    @Test("Accepts every input of the corpus", arguments: FuzzTarget.all.map(\.name))
    func corpus(name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(components: "Corpora", name)
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            do {
                try await target.check(Array(Data(contentsOf: file)))
            } catch {
                Issue.record("\(name)/\(file.lastPathComponent): \(error)")
            }
        }
    }
}
