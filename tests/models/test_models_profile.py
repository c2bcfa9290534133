"""The data files about families of models."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headgate.core import ModelSettings, Price
from headgate.models import find_profile, open_configured_model, profile_for, with_price
from headgate.models.profile import UNKNOWN, Profile, load_profiles, with_profile


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("qwen/qwen3-coder:30b", "Qwen3-Coder"),
        ("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf", "Qwen3-Coder"),
        ("qwen2.5-coder:1.5b", "Qwen2.5-Coder, small"),
        ("Qwen2.5-Coder-0.5B-Instruct-GGUF", "Qwen2.5-Coder, small"),
        ("Qwen/Qwen2.5-Coder-3B-Instruct", "Qwen2.5-Coder, small"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Qwen2.5-Coder, small"),
        ("qwen2.5-coder", "Qwen2.5-Coder"),
        ("qwen2.5-coder:7b", "Qwen2.5-Coder"),
        ("Qwen2.5-Coder-14B-Instruct-AWQ", "Qwen2.5-Coder"),
        ("hf.co/unsloth/Qwen2.5-Coder-32B-Instruct-128K-GGUF:Q4_K_M", "Qwen2.5-Coder"),
        ("Qwen/Qwen3-4B-Thinking-2507", "Qwen3, thinking"),
        ("qwen3:8b", "Qwen3"),
        ("gpt-oss:20b", "gpt-oss"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama 3.1 to 3.3"),
        ("llama3.2:3b", "Llama 3.1 to 3.3"),
        ("devstral:24b", "Devstral"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "Mistral"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "DeepSeek R1 distilled"),
        ("deepseek-chat", "DeepSeek V3"),
        ("gemma3:4b", "Gemma 3"),
        ("zai-org/GLM-4.6", "GLM 4.5 and later"),
        ("moonshotai/Kimi-K2-Thinking", "Kimi K2, thinking"),
        ("granite4:micro", "Granite 4"),
        ("phi4-mini", "Phi 4 mini"),
        ("SmolLM2-135M", "SmolLM2"),
        ("m", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_model_is_known_by_its_name(model: str, family: str) -> None:
    assert find_profile(model).name == family


def test_each_file_is_sound_and_each_profile_can_be_reached() -> None:
    profiles = load_profiles()
    names = [profile.name for profile in profiles]
    assert len(names) == len(set(names)) >= 30
    assert all(profile.match and profile.transports for profile in profiles)
    # What is known of one's own machine is how to ask; what is known of another's, what it costs.
    assert all(bool(profile.context_window) != bool(profile.host) for profile in profiles)
    assert all((profile.price is not None) == bool(profile.host) for profile in profiles)
    assert UNKNOWN not in profiles


LIST_PRICES = [
    ("openai/gpt-4o", Price(input=2.5, cached=1.25, output=10)),
    ("openai/gpt-4o-2024-11-20", Price(input=2.5, cached=1.25, output=10)),
    ("openai/gpt-4o-mini", Price(input=0.15, cached=0.075, output=0.6)),
    ("openai/gpt-4.1-mini-2025-04-14", Price(input=0.4, cached=0.1, output=1.6)),
    ("openai/gpt-5", Price(input=1.25, cached=0.125, output=10)),
    ("openai/o3", Price(input=2, cached=0.5, output=8)),
    ("anthropic/claude-sonnet-4-5-20250929", Price(input=3, cached=0.3, output=15)),
    ("anthropic/claude-3-7-sonnet-latest", Price(input=3, cached=0.3, output=15)),
    ("anthropic/claude-opus-4-1", Price(input=15, cached=1.5, output=75)),
    ("anthropic/claude-opus-4-5", Price(input=5, cached=0.5, output=25)),
    ("anthropic/claude-haiku-4-5", Price(input=1, cached=0.1, output=5)),
]
NO_PRICES = ["gpt-4o-2024-05-13", "ft:gpt-4o-2024-08-06:me::1", "gpt-4o-audio-preview", "gpt-5-pro", "gpt-6"]


async def cost(tmp_path: Path, **fields: Any) -> Price:
    async with open_configured_model(ModelSettings(**fields), cache=tmp_path) as (_, fitted):
        return fitted.price


@pytest.mark.parametrize(("model", "price"), LIST_PRICES)
async def test_the_list_price_is_known_where_the_maker_serves(
    tmp_path: Path, model: str, price: Price
) -> None:
    assert await cost(tmp_path, model=model) == price
    # Another server, whatever it serves under this name, has a price of its own, or none.
    assert await cost(tmp_path, model=model, base_url="http://localhost:1/v1") == Price()
    # What the user says wins, also that it costs nothing.
    for own in (Price(), Price(input=1, output=2)):
        assert await cost(tmp_path, model=model, price=own) == own


@pytest.mark.parametrize("name", NO_PRICES)
async def test_no_price_is_made_up(tmp_path: Path, name: str) -> None:
    assert await cost(tmp_path, model=f"openai/{name}") == Price()


async def test_the_large_providers_get_nothing_but_a_price(tmp_path: Path) -> None:
    settings = ModelSettings(model="openai/gpt-5")
    async with open_configured_model(settings, cache=tmp_path) as (_, fitted):
        assert fitted == settings.model_copy(update={"price": fitted.price})
    assert with_price(settings, UNKNOWN) is settings
    assert profile_for(ModelSettings(model="script:a.yaml")) is UNKNOWN


@pytest.mark.parametrize(
    "fields", [{"calls": "esperanto"}, {"match": "("}, {"oops": 1}, {"transports": ["x"]}]
)
def test_a_faulty_profile_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Profile.model_validate({"name": "n", **fields})


def test_only_what_was_left_open_is_filled_in() -> None:
    profile = Profile(name="n", context_window=100, temperature=0.5, top_p=0.9)
    assert with_profile(ModelSettings(model="openai/n"), profile) == ModelSettings(
        model="openai/n", context_window=100, temperature=0.5, top_p=0.9
    )
    written = ModelSettings(model="openai/n", context_window=7, temperature=0.0, top_p=1)
    assert with_profile(written, profile, 50) == written
    told = with_profile(ModelSettings(model="openai/n"), profile, 50)
    assert told.context_window == 50
