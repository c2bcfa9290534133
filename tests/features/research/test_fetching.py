"""Fetching from a real server that misbehaves in every way: bounded, checked, and told in one line."""

from collections.abc import AsyncIterator

import pytest

from features.research.site import ARTICLE, HERE, PRIVATE, Names, Site, permits
from headgate.features.research import is_public
from headgate.features.research.fetching import MOST_REDIRECTS, Page, PageFetcher, Unreadable

NAMES = {
    "site.test": [[HERE]],
    "private.test": [[PRIVATE]],
    "both.test": [[PRIVATE, HERE]],
    "mapped.test": [[f"::ffff:{PRIVATE}"]],
    "turncoat.test": [[HERE], [PRIVATE]],
    "odd.test": [["127.2"]],
}
PATIENT = 60.0
"""Seconds that no test ever waits for."""


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().running() as running:
        yield running


async def fetch(url: str, most: int = 100_000, seconds: float = PATIENT) -> Page:
    async with PageFetcher(permits, most, seconds, Names(NAMES)) as fetcher:
        return await fetcher.fetch(url)


async def problem(url: str, most: int = 100_000, seconds: float = PATIENT) -> str:
    with pytest.raises(Unreadable) as found:
        await fetch(url, most, seconds)
    return str(found.value)


async def test_a_page(site: Site) -> None:
    url = site.url("/article", "site.test")
    assert await fetch(f"{url}#part") == Page(url, ARTICLE, True, False)
    assert site.headers[0]["User-Agent"] == "headgate"
    assert not {"Cookie", "Referer", "Authorization"} & set(site.headers[0])


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/status/404", "the server answered 404"),
        ("/status/500", "the server answered 500"),
        ("/status/206", "the server answered 206"),
        ("/kind/application/pdf", "it is application/pdf, not text"),
        ("/kind/image/png", "it is image/png, not text"),
        ("/kind/text/javascript", "it is text/javascript, not text"),
        ("/nothing-said", "the server does not say what it is"),
        ("/broken-gzip", "its packed content is broken"),
        ("/brotli", "it is packed with br"),
        ("/circle/a", "it redirects in a loop"),
        ("/to?url=/to%3Furl%3D/circle/a", "it redirects in a loop"),
        (f"/count/{MOST_REDIRECTS}", f"it redirects more than {MOST_REDIRECTS} times"),
        ("/no-location", "it redirects nowhere"),
        ("/to?url=file:///etc/passwd", "it redirects to what is not on the web"),
        ("/to?url=ftp://site.test/a", "it redirects to what is not on the web"),
        ("/to?url=javascript:alert(1)", "it redirects to what is not on the web"),
        ("/to?url=http://user:pass@site.test/", "its address holds a login"),
        ("/to?url=http://[oops/", "its address is malformed"),
        ("/to?url=http://nowhere.test/", "its host has no address"),
        ("/broken-off", "its server broke the connection off"),
        ("/garbage", "its server broke the connection off"),
        ("/bad-chunks", "its server broke the connection off"),
    ],
)
async def test_what_is_not_read(site: Site, path: str, said: str) -> None:
    assert await problem(site.url(path)) == said


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a/b", "gopher://a/", "//a/b", "about:blank", ""]
)
async def test_only_the_web_is_fetched(url: str) -> None:
    assert await problem(url) == "it is not on the web"


PRIVATE_HOSTS = f"""
    {PRIVATE} 127.0.0.3 0.0.0.0 10.0.0.1 192.168.0.1 169.254.169.254 100.64.0.1 [::1] [::] [fe80::1] [fd00::1]
    [::ffff:{PRIVATE}] [64:ff9b::7f00:2] private.test mapped.test odd.test
"""


@pytest.mark.parametrize("host", PRIVATE_HOSTS.split())
async def test_no_connection_is_made_to_a_private_address(site: Site, host: str) -> None:
    """Neither at once nor after a redirect."""
    assert await problem(site.url("/say/private", host)) == "its address is private"
    redirect = f"/to?url={site.url('/say/private', host)}"
    assert await problem(site.url(redirect)) == "its address is private"
    assert [path for _, path in site.requests] == ["/to"]


@pytest.mark.parametrize(
    "host", ["2130706434", "127.2", "0177.0.0.2", "017700000002", "127.0.2", "0x7f000002"]
)
async def test_other_spellings_of_a_private_address(site: Site, host: str) -> None:
    """With the system's resolver, which knows them all; they may be refused as addresses or as spellings."""
    for url in (site.url("/say/private", host), site.url(f"/to?url={site.url('/say/private', host)}")):
        async with PageFetcher(permits, 1_000, PATIENT) as fetcher:
            with pytest.raises(
                Unreadable, match=r"its address is (private|malformed)|its host has no address"
            ):
                await fetcher.fetch(url)
    assert [path for _, path in site.requests] == ["/to"]


async def test_the_real_rule_refuses_this_machine_by_name(site: Site) -> None:
    async with PageFetcher(is_public, 1_000, PATIENT) as fetcher:
        with pytest.raises(Unreadable, match="its address is private"):
            await fetcher.fetch(site.url("/article", "localhost"))
    assert site.requests == []


async def test_a_name_with_a_private_and_a_public_address_leads_to_the_public_one(site: Site) -> None:
    assert (await fetch(site.url("/say/hello", "both.test"))).text == "hello"


async def test_a_name_whose_address_changes_is_checked_again(site: Site) -> None:
    """DNS rebinding: the address of the first answer says nothing about the second connection."""
    url = site.url("/to?url=/say/private", "turncoat.test")
    assert await problem(url) == "its address is private"
    assert [path for _, path in site.requests] == ["/to"]


async def test_redirects_are_followed_and_cookies_forgotten(site: Site) -> None:
    page = await fetch(site.url(f"/count/{MOST_REDIRECTS - 1}"))
    assert page == Page(site.url("/article"), ARTICLE, True, False)
    async with PageFetcher(permits, 100_000, PATIENT) as fetcher:
        await fetcher.fetch(site.url("/article"))
        await fetcher.fetch(site.url("/article"))
    assert set(site.cookies) == {""}


@pytest.mark.parametrize(("path", "text"), [("/gzip", "unpacked text"), ("/deflate", "inflated text")])
async def test_packed_pages(site: Site, path: str, text: str) -> None:
    assert await fetch(site.url(path)) == Page(site.url(path), text, False, False)


async def test_what_is_left_of_a_packed_page_that_is_cut_off(site: Site) -> None:
    page = await fetch(site.url("/half-gzip"))
    assert page.is_partial
    assert page.text.startswith("the beginning the beginning")


async def test_a_bomb_is_unpacked_only_as_far_as_it_is_wanted(site: Site) -> None:
    page = await fetch(site.url("/bomb"), most=60_000)
    assert (len(page.text), page.is_partial) == (60_000, True)


async def test_an_endless_page_is_left_when_enough_has_come(site: Site) -> None:
    page = await fetch(site.url("/endless"), most=10_000)
    assert (len(page.text), page.is_partial) == (10_000, True)
    await site.gone.wait()


@pytest.mark.parametrize("path", ["/silent", "/trickle"])
async def test_a_slow_page_is_left_when_its_time_is_over(site: Site, path: str) -> None:
    assert await problem(site.url(path), most=1 << 40, seconds=0.05) == "it took longer than 0.05 s"


@pytest.mark.parametrize("name", ["no-such-charset", "zip", "idna", "utf-7", "utf-8", "rot13", "punycode"])
async def test_a_charset_that_is_wrong_harms_nothing(site: Site, name: str) -> None:
    page = await fetch(site.url(f"/charset/{name}"))
    assert page.text == "gr\ufffd\ufffde"


async def test_charsets(site: Site) -> None:
    assert (await fetch(site.url("/charset/iso-8859-1"))).text == "grüße"
    assert "мост" in (await fetch(site.url("/meta"))).text
    assert "наверх" in (await fetch(site.url("/bom"))).text


@pytest.mark.parametrize(
    "host", ["a" * 70, "a..b", ".", "a b", "\u2025", "%00", "a:99999", "[::1", "-\u00ad-"]
)
async def test_hosts_that_are_none(host: str) -> None:
    async with PageFetcher(is_public, 1_000, PATIENT) as fetcher:
        with pytest.raises(
            Unreadable, match=r"its address is malformed|its host has no address|not on the web"
        ):
            await fetcher.fetch(f"http://{host}/")


async def test_a_server_without_encryption(site: Site) -> None:
    url = site.url("/article").replace("http:", "https:")
    assert await problem(url) == "no secure connection can be made to its server"


async def test_nobody_listens(site: Site) -> None:
    assert await problem(f"http://{HERE}:1/") == "its server cannot be reached"
