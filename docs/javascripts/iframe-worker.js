// Search runs in a worker, and browsers start no worker from a file. Where the site is opened from a disk, a hidden frame
// does the worker's work. (The site's generator looks for the name of this file, and takes none from the network then.)
if (location.protocol === "file:") {
  // As between threads: each side has a copy of its own, and gets it later.
  const send = (data, to) => { const message = { data: structuredClone(data) }; setTimeout(() => to(message)) }
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      this.frame.contentWindow.postMessage = data => send(data, message => this.onmessage?.(message))
      const script = this.frame.contentDocument.createElement("script")
      this.ready = new Promise(resolve => { script.onload = resolve })
      script.onerror = () => this.onerror?.({ preventDefault() {} })
      script.src = url
      this.frame.contentDocument.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => send(data, message => this.frame.contentWindow?.onmessage(message)))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
