"""`agent.yaml`, flows and prompts: what a user may change, typed and checked when it is loaded."""

from headgate.config.detect import Detection, detect_project
from headgate.config.drawing import draw_text, outline
from headgate.config.endpoint import (
    describe_keys,
    env_value,
    is_on_this_machine,
    ollama_address,
    same_server,
    show_address,
)
from headgate.config.feature_settings import ResearchSettings, SkillSettings
from headgate.config.flow_choice import depends_on_goal, flow_from_config
from headgate.config.flows import FlowNames, builtin_flows, check_flow, load_flow, require_checks, write_flow
from headgate.config.load import CONFIG_NAME, Loaded, assemble, find_configs, load_config
from headgate.config.phase_settings import PhaseControl, PromptPlace
from headgate.config.pinning import config_files, pin, repository_source, unpin
from headgate.config.prompts import fill, fill_text, prompt
from headgate.config.schema import Config, provider_of, unknown_model
from headgate.config.scout_settings import ScoutSettings
from headgate.config.stage_forms import FLOW_SUFFIXES
from headgate.config.trust import TrustedFiles, widening
from headgate.config.yaml_files import Document, explain, parse_yaml, read_yaml
from headgate.remembered import user_config_path
