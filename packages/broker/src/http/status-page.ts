// The page at `/`: agents and stacks with their state, live by server-sent events. Plain and small; no part of it comes from
// elsewhere. The key is typed in, kept for the tab, and sent as a header, never in an address.
import { createHash } from 'node:crypto'
import type { PageHandler } from './not-found.ts'

const style = `
  :root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif } body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
  table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid #8883 } th { font-weight: 600 }
  h1 { font-size: 1.3rem } h2 { font-size: 1rem; margin-top: 2rem } .applied, .connected { color: #1a7f37 } .failed { color: #cf222e } .pending, .held { color: #9a6700 } .stale, .never, .disconnected, .none { color: #888 }
  input { font: inherit; width: 28rem; max-width: 100% } #note { color: #888 }`

const script = `
  const $ = (id) => document.getElementById(id)
  const cell = (text, kind) => { const td = document.createElement('td'); td.textContent = text; if (kind) td.className = kind; return td }
  const fill = (id, rows) => $(id).replaceChildren(...rows.map((cells) => { const tr = document.createElement('tr'); tr.append(...cells); return tr }))
  const key = () => sessionStorage.getItem('brokkr')
  const get = async (path) => { const r = await fetch('/api/v1' + path, { headers: { authorization: 'Bearer ' + key() } }); if (!r.ok) throw r; return r.json() }
  const seen = (at) => at ? Math.max(0, Math.round((Date.now() - Date.parse(at)) / 1000)) + ' s ago' : 'never'
  async function read() {
    const [agents, stacks] = await Promise.all([get('/agents'), get('/stacks')])
    fill('agents', agents.map((a) => [cell(a.name), cell(a.cluster_name), cell(a.connection_state, a.connection_state), cell(seen(a.last_seen_at)), cell(a.agent_version ?? '')]))
    const rows = await Promise.all(stacks.slice(0, 200).map(async (s) => {
      const { desired_sequence_id, agents } = await get('/stacks/' + s.id + '/status')
      if (agents.length === 0) return [[cell(s.name), cell(desired_sequence_id ?? '-'), cell('no agent', 'none'), cell(''), cell('')]]
      return agents.map((a) => [cell(s.name), cell(desired_sequence_id ?? '-'), cell(a.agent_name), cell((a.phase ?? 'waiting') + (a.code ? ' (' + a.code + ')' : '') + (a.stale ? ', stale' : ''), a.stale ? 'stale' : a.phase ?? 'none'), cell(a.sequence_id ?? '-')])
    }))
    fill('stacks', rows.flat())
    $('note').textContent = 'as of ' + new Date().toLocaleTimeString()
  }
  let wanted = false, reading = false
  async function refresh() { wanted = true; if (reading) return; reading = true; try { while (wanted) { wanted = false; await read() } } finally { reading = false } }
  async function follow() {
    for (;;) {
      try {
        const r = await fetch('/api/v1/watch?scope=kind:agent&scope=kind:stack&scope=kind:status&scope=kind:target&scope=kind:deployment_object', { headers: { authorization: 'Bearer ' + key(), accept: 'text/event-stream' } })
        if (r.status === 401 || r.status === 403) return signIn('this key does not open the page')
        const lines = r.body.pipeThrough(new TextDecoderStream()).getReader()
        for (;;) { const { done, value } = await lines.read(); if (done) break; if (/^event: (hello|change)/m.test(value)) await refresh() }
      } catch { $('note').textContent = 'the broker does not answer; what stands here is old' }
      await new Promise((r) => setTimeout(r, 2000))
    }
  }
  function signIn(why) { sessionStorage.removeItem('brokkr'); $('why').textContent = why ?? ''; $('in').hidden = false; $('page').hidden = true }
  function start() { $('in').hidden = true; $('page').hidden = false; follow() }
  $('in').addEventListener('submit', (e) => { e.preventDefault(); sessionStorage.setItem('brokkr', $('key').value.trim()); $('key').value = ''; start() })
  setInterval(() => { if (!$('page').hidden) refresh().catch(() => {}) }, 15000)
  if (key()) start(); else signIn()`

const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Brokkr</title><style>${style}</style>
<h1>Brokkr</h1>
<form id="in" hidden><p>Sign in with a key. <code>brokkr up</code> keeps one in <code>.brokkr/keys/admin.pak</code>.</p><p><input id="key" type="password" autocomplete="off" aria-label="key" placeholder="brokkr_BR…"> <button>Show</button></p><p id="why" class="failed"></p></form>
<main id="page" hidden><p id="note">reading …</p>
<h2>Agents</h2><table><thead><tr><th>Name<th>Cluster<th>State<th>Seen<th>Version</thead><tbody id="agents"></tbody></table>
<h2>Stacks</h2><table><thead><tr><th>Stack<th>Desired<th>Agent<th>State<th>Observed</thead><tbody id="stacks"></tbody></table>
<p><a href="/docs">API</a></p></main><script>${script}</script></html>`

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

export const statusPage: PageHandler = () => ({
  body: html,
  contentType: 'text/html; charset=utf-8',
  headers: {
    'content-security-policy': `default-src 'none'; connect-src 'self'; style-src ${hashOf(style)}; script-src ${hashOf(script)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  },
})
