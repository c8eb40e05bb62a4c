// Search runs in a worker, and browsers start no worker from a file. Where the site is opened from a disk, a hidden frame
// does the worker's work. (The site's generator looks for the name of this file, and takes none from the network then.)
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => setTimeout(() => this.onmessage?.({ data }))
      const script = this.frame.contentDocument.createElement("script")
      this.ready = new Promise(resolve => { script.onload = resolve })
      script.onerror = () => this.onerror?.({ preventDefault() {} })
      script.src = url
      this.frame.contentDocument.body.append(script)
    }

    postMessage(data) {
      this.ready.then(() => setTimeout(() => this.frame.contentWindow?.onmessage({ data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
