import Foundation
import StrictJSON
import TestSupport
import Testing

@testable import AuditReport

/// The templates in `templates.json`, which the program and `scripts/recount-report` render in the same way.
@Suite("The page's template")
struct PageTemplateTests {
    private static func cases() throws -> JSONObject {
        let file = ProjectFiles.path("Tests/Records/AuditReportTests/templates.json")
        return try #require(try JSONValue(parsing: Array(Data(contentsOf: URL(filePath: file)))).objectValue)
    }

    @Test("makes the expected text, and so does the script")
    func rendered() async throws {
        let directory = try FreshDirectory()
        let rendered = try #require(try Self.cases()["rendered"]?.arrayValue)
        #expect(rendered.count == 12)
        for example in rendered.compactMap(\.objectValue) {
            let name = try #require(example["name"]?.stringValue)
            let text = try #require(example["template"]?.stringValue)
            let (value, expected) = (try #require(example["value"]), try #require(example["text"]?.stringValue))
            #expect(PageTemplate(text)?.render(value) == expected, "\(name)")
            let script = try await Program.run(
                ProjectFiles.path("scripts/recount-report"),
                [
                    "--render", directory.write(text, to: "template"),
                    directory.write(String(decoding: value.compact, as: UTF8.self), to: "value"),
                ])
            #expect(script.output == expected, "\(name): \(script)")
        }
    }

    @Test("refuses a template with an open section or an unknown format, and so does the script")
    func malformed() async throws {
        let directory = try FreshDirectory()
        for text in try #require(try Self.cases()["malformed"]?.arrayValue).compactMap(\.stringValue) {
            #expect(PageTemplate(text) == nil, "\(text)")
            let script = try await Program.run(
                ProjectFiles.path("scripts/recount-report"),
                ["--render", directory.write(text, to: "template"), directory.write("{}", to: "value")])
            #expect(script.status == 66, "\(text): \(script)")
        }
    }

    @Test("is the file that the script reads")
    func sameFile() throws {
        let file = ProjectFiles.path("scripts/report.template.html")
        #expect(try Array(Data(contentsOf: URL(filePath: file))) == PackageResources.report_template_html)
        #expect(ReportPage.template != nil)
    }
}
