"""What random selectors and devices are made of."""

DRIVER = "gpu.nvidia.com"
DOMAINS = (DRIVER, DRIVER, DRIVER, "resource.kubernetes.io", "nobody.example", "example")
NAMES = (
    "productName",
    "architecture",
    "count",
    "healthy",
    "driverVersion",
    "uuid",
    "absent",
    "memory",
    "tags",
)
AMOUNTS = (
    "0",
    "1",
    "40Gi",
    "80Gi",
    "81559Mi",
    "1500m",
    "1e3",
    "-1",
    "16E",
    "0.5Gi",
    "1000m",
    "10k",
    "eighty",
    "1 Gi",
)
VERSIONS = (
    "0.0.0",
    "8.0.0",
    "9.0.0",
    "570.86.15",
    "1.2.3-rc.1",
    "1.2.3-rc.2+b",
    "9.0.0+x",
    "9.0",
    "v1.2.3",
    "01.2.3",
)
TEXTS = (
    "",
    "gpu",
    "NVIDIA H100 80GB HBM3",
    "Hopper",
    "a.b.c",
    "ÄÖü€",
    "GPU-0001",
    " x ",
    "3g.40gb",
    "true",
    "42",
    "1.5",
)
PATTERNS = ("^NVIDIA", "[0-9]+", "H[12]00", "a.*c", "", "(a|b)+", "x{2,3}", "(", "[", "\\\\d+", "(?i)gpu")
PLACES = (
    "10.0.0.1",
    "127.0.0.1",
    "::1",
    "fe80::1",
    "10.0.0.256",
    "::ffff:1.2.3.4",
    "224.0.0.1",
    "2001:db8::1",
    "01.2.3.4",
)
NETS = ("10.0.0.0/8", "10.1.0.0/16", "::/0", "fe80::/10", "10.0.0.0/33", "10.0.0.1", "10.0.0.7/24")
