"""Gestures by mouse, touch and keyboard, and every way to break a claim."""

import pathlib

from page_checks import Browser

from .tools import check, opened, ready, visit, wait_for


def part(browser: Browser, folder: pathlib.Path) -> None:
    """Every gesture keeps the claim; every "break it" turns red, and turning it off restores the claim."""
    page = opened(browser, folder)
    # Start: the picture can be touched at once.
    page.locator(".handle").first.focus()
    page.keyboard.press("ArrowRight")
    check(wait_for(page, "forward", True), "start: moving a word breaks the claim")
    check(wait_for(page, "backward", True) and wait_for(page, "weights", True), "start: moving a word breaks what is said of gradients")
    check("order=1.0.2.3.4.5" in page.url, f"start: a key gives {page.url.split('#')[-1]}")
    page.get_by_role("switch").check()
    check(wait_for(page, "forward", False), "start: places stay green")
    check("last bit" not in (page.locator("main").text_content() or ""), "start: what is broken is still said to be equal to the last bit")
    page.get_by_role("switch").uncheck()
    # Tokens: keyboard, then each switch.
    visit(page, "tokens")
    page.locator(".handle").first.focus()
    for key in ("ArrowDown", "ArrowDown", "End", "Home", "ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    check("order=0.2.1.5.3.4" in page.url, f"tokens: five keys give {page.url.split('#')[1]}")
    check(wait_for(page, "forward", True), "tokens: moving a token by the keyboard breaks the claim")
    for name in ("add positions", "causal mask", "rotary", "the second place is scaled"):
        switch = page.get_by_role("switch", name=name)
        switch.check()
        check(wait_for(page, "forward", False), f"tokens: '{name}' stays green")
        check(page.locator(".chip.fails").count() > 0, f"tokens: '{name}' does not say where the difference enters")
        switch.uncheck()
        check(wait_for(page, "forward", True), f"tokens: '{name}' cannot be undone")
    # Mouse: the first word goes to the end.
    visit(page, "tokens?order=")
    first, last = page.locator(".handle").first, page.locator(".handle").last
    a, b = first.bounding_box(), last.bounding_box()
    page.mouse.move(a["x"] + 20, a["y"] + 10)
    page.mouse.down()
    for i in range(1, 9):
        page.mouse.move(a["x"] + 20, a["y"] + 10 + (b["y"] - a["y"]) * i / 8)
    page.mouse.up()
    page.wait_for_timeout(300)
    check("order=1.2.3.4.5.0" in page.url, f"tokens: dragging the first word to the end gives {page.url.split('#')[1]}")
    # Features.
    visit(page, "features")
    for choice, holds in (("stay as they were", False), ("follow, inner axes apart", True), ("follow, inner axes stay", True)):
        page.get_by_role("radio", name=choice, exact=True).check()
        check(wait_for(page, "forward", holds), f"features: '{choice}' {'breaks' if holds else 'stays green'}")
    visit(page, "features?weights=tied&order=3.1.2.0.4.5.6.7")
    check(wait_for(page, "forward", True), "features: tied weights fail for an order that keeps the heads")
    visit(page, "features?weights=tied&order=4.1.2.3.0.5.6.7")
    check(wait_for(page, "forward", False), "features: tied weights stay green for an order that mixes the heads")
    # Gradients.
    visit(page, "gradients?turn=0.7")
    check(wait_for(page, "covector", True) and wait_for(page, "weight", True), "gradients: a rotation breaks a rule")
    page.get_by_role("button", name="Stretch by 1").click()
    check(wait_for(page, "weight", False), "gradients: stretching stays green")
    check(wait_for(page, "covector", True), "gradients: stretching breaks the covector rule")
    # Two trainings.
    visit(page, "twins")
    page.get_by_role("button", name="Start").click()
    page.wait_for_timeout(1500)
    page.get_by_role("button", name="Pause").click()
    check(wait_for(page, "twins", True), "twins: permuted features leave the plain training")
    for name, holds in (("Rotate, with Adam", False), ("Mend it: rotate, with SGD", True),
                        ("Rotate, with Muon, whose vectors Adam trains", False), ("Mend it: rotate, with Muon, matrices alone", True), ("Scale, with SGD", False), ("Do not move the weights", False)):
        page.get_by_role("button", name=name).click()
        check(wait_for(page, "twins", holds), f"twins: '{name}' {'leaves' if holds else 'stays green'}")
    # Masks.
    visit(page, "masks")
    check(wait_for(page, "forward", True), "masks: a turn of the ring is refused")
    page.get_by_role("button", name="Exchange two tokens").click()
    check(wait_for(page, "forward", False), "masks: a forbidden order stays green")
    page.get_by_role("button", name="sees all").click()
    check(page.get_by_text("This mask allows every order").is_visible() or page.wait_for_selector("text=This mask allows every order"), "masks: the full mask forbids something")
    page.get_by_role("button", name="causal", exact=True).click()
    page.wait_for_selector('[data-order="1"]')
    page.locator('.mask [data-at="0,0"]').focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.wait_for_selector('.mask [data-at="0,1"][aria-pressed="true"]')
    check(page.locator('.mask [data-at="0,1"]').get_attribute("aria-pressed") == "true", "masks: space does not paint")
    # What was painted stays when a token is added.
    visit(page, "masks?mask=6.3.5&order=")  # a one-way ring of three
    page.wait_for_selector('[data-group="C_3"]')
    page.locator("input[type=range]").first.press("ArrowRight")
    page.wait_for_selector('[data-group="C_3"][data-order="3"]')
    check(page.locator(".mask button").count() == 16, "masks: the slider adds no token")
    # Thief.
    for sees in ("weights", "gain", "pair", "tokens"):
        visit(page, f"thief?sees={sees}")
        check(wait_for(page, "key", True), f"thief: {sees} do not give the key away")
        page.get_by_role("switch").check()
        check(wait_for(page, "key", False), f"thief: {sees} that are secret give the key away")
    # Its gesture: dragging columns changes the misfit, and the order that the attack finds has none.
    misfit = lambda: float(page.locator("[data-misfit]").get_attribute("data-misfit") or "nan")  # noqa: E731
    for sees in ("weights", "gain", "pair", "tokens"):
        visit(page, f"thief?sees={sees}")
        begun = misfit()
        check(begun > 0.1, f"thief: {sees}: the misfit is {begun} before anything was dragged")
        page.locator(".handle").first.focus()
        page.keyboard.press("End")
        page.wait_for_timeout(300)
        check("guess=" in page.url and misfit() != begun, f"thief: {sees}: a key changes nothing")
        page.get_by_role("button", name="Let the attack do it").click()
        page.wait_for_timeout(300)
        shown = [text.strip() for text in page.locator(".stealing .handle").all_text_contents()]
        groups = [" ".join(group.locator(".keys span").all_text_contents()) for group in page.locator(".match > div").all()]
        check(" ".join(shown) in groups, f"thief: {sees}: the handles show {shown}, the keys are {groups}")
        check(misfit() < 1e-9, f"thief: {sees}: the attack leaves a misfit of {misfit()}")
        page.locator(".handle").first.scroll_into_view_if_needed()
        a, b = page.locator(".handle").nth(0).bounding_box(), page.locator(".handle").nth(2).bounding_box()
        page.mouse.move(a["x"] + 8, a["y"] + 8)
        page.mouse.down()
        page.mouse.move(b["x"] + 10, b["y"] + 10, steps=5)
        page.mouse.up()
        page.wait_for_timeout(300)
        check(misfit() > 1e-3, f"thief: {sees}: dragging away from the key leaves a misfit of {misfit()}")
    # Tape.
    visit(page, "tape")
    check(wait_for(page, "slope", True), "tape: gradients are not the slope")
    check(page.get_by_role("button", name="Lose none").is_disabled(), "tape: nothing is lost, and losing none is offered")
    # A value and its cotangent have pictures of their own.
    page.locator(".entries button").nth(2).click()
    page.wait_for_timeout(200)
    for _ in range(4):
        page.get_by_role("button", name="Step", exact=True).click()
    page.locator(".entries button").nth(2).click()
    page.wait_for_timeout(300)
    colours = page.evaluate("[...document.querySelectorAll('.grow.row figure:not([hidden]) svg')].map(e => [...e.querySelectorAll('rect')].map(cell => cell.style.fill).join())")
    check(len(colours) == 2 and colours[0] != colours[1], "tape: gelu's value and its cotangent have the same picture")
    visit(page, "tape")
    for _ in range(7):
        page.get_by_role("button", name="Step", exact=True).click()
    page.get_by_role("button", name="Lose the cotangent").click()
    check(wait_for(page, "slope", False), "tape: a lost cotangent stays green")
    page.get_by_role("button", name="Lose none").click()
    check(wait_for(page, "slope", True), "tape: nothing lost stays red")
    page.locator("#program").fill("y = sum(gelo(x))")
    page.wait_for_selector(".problem:not(:empty)")
    check((page.locator("p[role=status].gesture:not(.busy)").first.text_content() or "") == "", "tape: a step is described of a program that cannot be read")
    check("did you mean gelu" in (page.locator(".problem").text_content() or ""), "tape: a misspelt function is not explained")
    page.context.close()
    # Hostile addresses.
    page = opened(browser, folder)
    for link in ("%", "%E0%A4%A", "tokens?order=9.9.9", "masks?mask=0.0.0", "catalogue?dim=1e9", "__proto__?x=1", "tape?program=%3Cimg%20src%3Dx%3E"):
        page.goto((folder / "index.html").resolve().as_uri() + "#" + link)
        page.reload()
        ready(page)
        check(page.locator("main h1").count() == 1, f"the address #{link} shows no page")
        page.wait_for_timeout(200)
        check(page.locator("main img").count() == 0, f"the address #{link} makes an image")
    # Sizes that rows cannot have are neither green nor red.
    visit(page, "catalogue?q=thm4&tokens=2&heads=1&dim=13")
    page.get_by_role("button", name="Run all that are shown").click()
    page.wait_for_selector("[data-seconds]", timeout=60_000)
    check(page.locator(".strip .skipped").count() > 0 and page.locator(".strip .fails, .card .fails").count() == 0, "catalogue: a size that is too small is shown as a theorem that fails")
    page.context.close()
    # Touch.
    page = opened(browser, folder, has_touch=True)
    visit(page, "tokens?order=")
    a, b = page.locator(".handle").first.bounding_box(), page.locator(".handle").nth(2).bounding_box()
    session = page.context.new_cdp_session(page)
    at = lambda box, share=0.0: [{"x": box["x"] + 20, "y": box["y"] + 12 + share}]  # noqa: E731
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": at(a)})
    for i in range(1, 7):
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": at(a, (b["y"] - a["y"]) * i / 6)})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)
    check("order=1.2.0.3.4.5" in page.url, f"tokens: dragging by touch gives {page.url.split('#')[1]}")
    # Sixteen columns stand in several lines of a phone: one is dragged from the first line into the last.
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, "thief?sees=gain")
    page.locator(".handle").first.scroll_into_view_if_needed()
    a, b = page.locator(".handle").first.bounding_box(), page.locator(".handle").last.bounding_box()
    check(b["y"] > a["y"] + 20, "thief: sixteen columns stand in one line of a phone")
    session.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": a["x"] + 10, "y": a["y"] + 10}]})
    for i in range(1, 9):
        session.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [{"x": a["x"] + 10 + (b["x"] - a["x"]) * i / 8, "y": a["y"] + 10 + (b["y"] - a["y"]) * i / 8}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_timeout(300)
    guess = page.url.split("guess=")[-1].split("&")[0].split(".")
    check(len(guess) == 16 and guess.index("0") >= 14, f"thief: dragging by touch across lines gives {guess}")
    page.context.close()
