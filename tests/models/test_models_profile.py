"""The data files about families of models."""

import pytest
from pydantic import ValidationError

from headgate.core.settings import ModelSettings
from headgate.models.profile import UNKNOWN, Profile, find_profile, load_profiles, with_profile


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("qwen/qwen3-coder:30b", "Qwen3-Coder"),
        ("Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf", "Qwen3-Coder"),
        ("qwen2.5-coder:1.5b", "Qwen2.5-Coder"),
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
    assert all(profile.match and profile.transports and profile.context_window for profile in profiles)
    assert UNKNOWN not in profiles


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
