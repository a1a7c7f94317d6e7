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

FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *(
        "dns1123SubdomainPrefix",
        "dns1035LabelPrefix",
        "labelValue",
        "uri",
        "uuid",
        "byte",
        "date",
        "datetime",
    ),
)
FORMATTED = (
    *(
        "a",
        "a-",
        "a--",
        "-",
        "1a",
        "a.b",
        "A",
        "a" * 63,
        "a" * 64,
        "a/b",
        "/b",
        "a/",
        "a/b/c",
        "x_y.Z",
        "b-1",
    ),
    *(
        "http://example.com/x?y",
        "http://a:80",
        "http://a:x",
        "https://a:1:2/",
        "ftp://a:1:2/",
        "/x",
        "x:y",
        ":x",
    ),
    *("http://u:p@h/", "http://u p@h/", "http://a%20b/", "http://[::1]:8/", "http://a/%z", "*", "//x", "a b"),
    *("123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000", "123e4567-e89b"),
    *("aGVsbG8=", "aGVsbG8", "a===", "2024-02-29", "2023-02-29", "0000-01-01", "2021-1-1"),
    *("2021-01-01T00:00:00Z", "2021-01-01t23:59:59.5+01:00", "2021-01-01T24:00:00Z", "2021-01-01 00:00:00Z"),
)
