// Return the size in pixels, the box and the contrast of each text on the page, by figure.
() => {
    const channels = (colour) => {
        const numbers = colour.match(/[\d.]+/g).slice(0, 3).map(Number);
        return colour.startsWith("rgb") ? numbers.map((one) => one / 255) : numbers;
    };
    const luminance = (colour) => channels(colour)
        .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, i) => sum + one * [0.2126, 0.7152, 0.0722][i], 0);
    const page = luminance(getComputedStyle(document.body).backgroundColor);
    return [...document.querySelectorAll("tcplab-figure")].map(({ shadowRoot }) => {
        const svg = shadowRoot.querySelector("svg");
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll("text")].map((text) => {
            const { left, right, top, bottom } = text.getBoundingClientRect();
            const { fontSize, fill } = getComputedStyle(text);
            const [dark, light] = [page, luminance(fill)].sort((a, b) => a - b);
            return {
                text: text.textContent, px: parseFloat(fontSize) * scale,
                box: [left, top, right, bottom], contrast: (light + 0.05) / (dark + 0.05),
            };
        });
    });
}
