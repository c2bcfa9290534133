"""Variables and instructions that hold for one stage only."""

from headgate import Flow, Stage, run_flow_sync

flow = Flow(
    name="document",
    variables={"PRODUCT": "Headgate"},
    stages=[
        Stage(
            id="translate",
            prompt="Translate the document.",
            variables={"sourceLanguage": "English", "targetLanguage": "Spanish", "preserveFormatting": True},
            system="Be creative and imaginative. Use vivid language.",
        ),
        Stage(
            id="summarize",
            needs=["translate"],
            prompt="Summarize the content.",
            variables={"maxLength": 500, "style": "bullet-points"},
            system={"name": "analysis_rules", "value": "Be precise and methodical. Cite all sources."},
        ),
        Stage(
            id="review",
            needs=["summarize"],
            prompt="Review the summary.",
            system=[
                {"name": "reviewer_role", "value": "You are a senior reviewer."},
                {"name": "review_criteria", "value": "Look at accuracy and readability."},
            ],
        ),
    ],
)

if __name__ == "__main__":
    result = run_flow_sync(flow, input="Translate and summarize: Headgate runs tasks.")
    for stage in result:
        print(stage, result[stage].status)
