// Icons and state glyphs from the sprite in index.html.
export function Icon({ name, size = '' }: { name: string; size?: 's' | 'm' | '' }) {
  return (
    <svg className={`i ${size}`} aria-hidden="true">
      <use href={`#${name}`} />
    </svg>
  )
}

export type State = 'current' | 'progressing' | 'behind' | 'degraded' | 'failing' | 'held' | 'stale' | 'unknown' | 'wait'

export function Glyph({ state, size = '' }: { state: State; size?: 'l' | 'xl' | '' }) {
  return (
    <svg className={`g ${size} st-${state}`} aria-hidden="true">
      <use href={`#g-${state}`} />
    </svg>
  )
}

/** A state in words; what is healthy has no pill. */
export function StateText({ state, children }: { state: State; children: React.ReactNode }) {
  return (
    <span className={`st st-${state}`}>
      <Glyph state={state} />
      {children}
    </span>
  )
}

export function Pill({ state, children }: { state: State; children: React.ReactNode }) {
  return (
    <span className={`pill st-${state}`}>
      <Glyph state={state} />
      {children}
    </span>
  )
}
