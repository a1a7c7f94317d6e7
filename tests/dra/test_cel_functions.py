"""What the functions of CEL and of Kubernetes return, at their edges: each line is true."""

import pytest

from dra.cel import EvaluationError, compile_selector
from dra.pools import gather_pools
from tests.dra.clusters import gpu, resource_slice

TRUE = r"""
ip('ff02::1').isLinkLocalMulticast()
!ip('ff05::1').isLinkLocalMulticast()
!ip('fe02::1').isLinkLocalMulticast()
ip('224.0.0.5').isLinkLocalMulticast()
!ip('224.0.1.5').isLinkLocalMulticast()
ip('169.254.169.254').isLinkLocalUnicast()
!ip('169.253.0.1').isLinkLocalUnicast()
ip('fe80::1').isLinkLocalUnicast()
ip('febf::1').isLinkLocalUnicast()
!ip('fec0::1').isLinkLocalUnicast()
ip('127.0.0.2').isLoopback()
ip('::1').isLoopback()
!ip('128.0.0.1').isLoopback()
ip('0.0.0.0').isUnspecified()
ip('::').isUnspecified()
!ip('0.0.0.1').isUnspecified()
ip('10.0.0.1').isGlobalUnicast()
!ip('255.255.255.255').isGlobalUnicast()
!ip('224.0.0.1').isGlobalUnicast()
ip('10.0.0.1').family() == 4
ip('::1').family() == 6
isIP('10.0.0.1')
!isIP('10.0.0')
!isIP('010.0.0.1')
ip.isCanonical('2001:db8::abcd')
!ip.isCanonical('2001:DB8::ABCD')
cidr('192.168.0.0/24').containsIP('192.168.0.255')
!cidr('192.168.0.0/24').containsIP('192.168.1.0')
cidr('192.168.0.0/24').containsCIDR('192.168.0.0/25')
!cidr('192.168.0.0/24').containsCIDR('192.168.0.0/23')
cidr('192.168.0.1/24').masked() == cidr('192.168.0.0/24')
cidr('192.168.0.1/24').prefixLength() == 24
cidr('192.168.0.1/24').ip() == ip('192.168.0.1')
isCIDR('10.0.0.0/8')
!isCIDR('10.0.0.0')
!isCIDR('10.0.0.0/08')
!isCIDR('10.0.0.0/33')
[1, 2, 3, 2].indexOf(2) == 1
[1, 2, 3, 2].lastIndexOf(2) == 3
[1].indexOf(2) == -1
[1].lastIndexOf(2) == -1
[1, 2, 3].sum() == 6
[3, 1, 2].min() == 1
[1, 3, 2].max() == 3
![1, 3, 2].isSorted()
[1, 1].isSorted()
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[1, 2].slice(2, 2) == []
[1, 2, 3].reverse() == [3, 2, 1]
[3, 1, 2].sort() == [1, 2, 3]
[1, 1, 2].distinct() == [1, 2]
!format.dns1123Label().validate('a-1').hasValue()
format.dns1123Label().validate('a.b').value() == ['must not contain dots']
format.dns1123Label().validate('A').value()[0].startsWith('a lowercase RFC 1123 label must')
format.dns1123Label().validate('A').value()[0].endsWith("is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")
format.named('dns1123Label').value() == format.dns1123Label()
!(format.dns1123Label() == format.dns1123Subdomain())
!format.named('dns1123label').hasValue()
format.dns1123Subdomain().validate('').hasValue()
!format.dns1123Subdomain().validate('a.b').hasValue()
format.dns1035Label().validate('1a').hasValue()
!format.dns1123LabelPrefix().validate('ab-').hasValue()
format.dns1123Label().validate('ab-').hasValue()
!format.qualifiedName().validate('example.com/Name').hasValue()
format.qualifiedName().validate('/').value().size() == 3
format.qualifiedName().validate('a/b/c').value().size() == 1
!format.labelValue().validate('').hasValue()
format.labelValue().validate('-').hasValue()
!format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue()
format.uuid().validate('GPU-1').value() == ['does not match the UUID format']
!format.byte().validate('aGVsbG8=').hasValue()
format.byte().validate('').value() == ['invalid base64']
!format.date().validate('2024-02-29').hasValue()
format.date().validate('2023-02-29').hasValue()
!format.datetime().validate('2021-01-01T23:59:59Z').hasValue()
format.datetime().validate('2021-01-01T24:00:00Z').value() == ['invalid datetime']
!format.uri().validate('http://example.com/a?b').hasValue()
!format.uri().validate('/path').hasValue()
format.uri().validate('example.com').value() == ['parse "example.com": invalid URI for request']
format.uri().validate('http://a b/').value() == ['parse "http://a b/": invalid character " " in host name']
format.uri().validate('http://a/%zz').value() == ['parse "http://a/%zz": invalid URL escape "%zz"']
format.uri().validate('http://a:x/').value() == ['parse "http://a:x/": invalid port ":x" after host']
[[1], [2, 3]].flatten() == [1, 2, 3]
lists.range(3) == [0, 1, 2]
'a-b-c'.split('-', 2) == ['a', 'b-c']
'tacocat'.indexOf('ac', 3) == -1
'tacocat'.indexOf('', 7) == 7
'tacocat'.lastIndexOf('c') == 4
'tacocat'.substring(4) == 'cat'
'tacocat'.substring(0, 4) == 'taco'
'ab'.substring(2) == ''
'hello hello'.replace('he', 'we', 1) == 'wello hello'
'aXa'.replace('a', '', -1) == 'X'
'tacocat'.charAt(6) == 't'
'tacocat'.charAt(7) == ''
' a b '.trim() == 'a b'
'Ab'.lowerAscii() == 'ab'
'Ab'.upperAscii() == 'AB'
{'a': 1}.all(k, k == 'a')
[1, 2].exists_one(x, x == 2)
![1, 1].exists_one(x, x == 1)
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
[1, 2].filter(x, x > 1) == [2]
[1, 2] == [1, 2]
[1, 2] != [2, 1]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{'a': 1} != {'a': 1, 'b': 2}
sets.contains([1, 2], [2])
!sets.contains([1], [2])
sets.equivalent([1, 1], [1])
!sets.intersects([1], [2])
-7 / 2 == -3
-7 % 2 == -1
7 - -2 == 9
'\u00e9' == 'é'
r'\n' != '\n'
size('é') == 1
'10.1'.matches('^[0-9]+')
!'a1'.matches('^[0-9]+$')
semver('1.2.3').isLessThan(semver('1.10.0'))
semver('1.2.3').major() == 1
isSemver('1.0.0')
!isSemver('v1')
quantity('1Gi').isGreaterThan(quantity('1G'))
quantity('1Gi').asInteger() == 1073741824
quantity('1').add(1).sub(quantity('500m')).asApproximateFloat() == 1.5
"""


def verdict(expression):
    (pool,) = gather_pools([resource_slice(devices=[gpu(0)])])
    return compile_selector(expression).matches(pool.devices[0])


@pytest.mark.parametrize("expression", TRUE.strip().splitlines())
def test_an_expression_is_true(expression):
    assert verdict(expression) is True


FAILING = """
[1, 2].slice(1, 3) == []
[1, 2].slice(-1, 1) == []
'abc'.substring(2, 1) == ''
'abc'.substring(4) == ''
'abc'.charAt(4) == ''
'abc'.charAt(-1) == ''
[1][1] == 1
{'a': 1}['b'] == 1
1 / 0 == 1
1 % 0 == 1
9223372036854775807 + 1 == 0
ip('10.0.0.256') == ip('10.0.0.1')
cidr('10.0.0.0/33') == cidr('10.0.0.0/8')
semver('1.0') == semver('1.0.0')
quantity('many') == quantity('1')
"""


@pytest.mark.parametrize("expression", FAILING.strip().splitlines())
def test_what_has_no_value_is_an_error_and_not_false(expression):
    with pytest.raises(EvaluationError):
        verdict(expression)
