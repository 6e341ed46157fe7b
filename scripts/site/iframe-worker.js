// Browsers refuse workers to pages that were opened as files. There a Worker is a hidden frame with the worker's script, so
// that the search works from a folder or a stick as well. mkdocs-material expects this under the name iframe-worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = undefined; // the frame's own; messages are handed over as calls
      inside.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(new URL(each, url).href)), Promise.resolve());
      inside.postMessage = data => this.deliver(this, data);
      this.load(new URL(url, location.href).href).then(() => {
        this.ready = true;
        for (const data of this.waiting.splice(0)) this.deliver(inside, data);
      });
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = failed;
        this.frame.contentDocument.body.append(script);
      });
    }
    deliver(target, data) {
      setTimeout(() => {
        const event = new MessageEvent("message", { data });
        target.dispatchEvent(event);
        target.onmessage?.(event);
      });
    }
    postMessage(data) {
      if (this.ready) this.deliver(this.frame.contentWindow, data);
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
