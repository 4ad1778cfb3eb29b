import ArgumentParser
import Gateway
import ProductVersion

@main
struct PaytokenGateway: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "paytoken-gateway", abstract: "A merchant's server for Apple Pay, in front of paytokend.",
        version: ProductVersion.current)
}
