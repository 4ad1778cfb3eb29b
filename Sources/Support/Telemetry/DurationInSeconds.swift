extension Duration {
    /// For metrics, whose base unit of time is the second.
    package var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
