/// The version that every program of this package prints. The daemon and its workers compare it in their handshake.
/// Semantic versioning 2.0.0.
public enum ProductVersion {
    public static let current = "0.1.0"
}
