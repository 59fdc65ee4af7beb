/// What runs on the sign-in screen. It holds the code verifier in memory and sends it only once the person at the
/// screen has said that the account that scanned is theirs (S23).
enum ScreenScript {
  static let javaScript = #"""
    'use strict';
    (() => {
      // Half an hour of codes that nobody scanned: then somebody has to ask for the next one.
      const unattended = 15;
      const element = (id) => document.getElementById(id);
      const title = element('title'), text = element('text'), frame = element('frame'), code = element('code');
      const veil = element('veil'), typed = element('typed'), letters = element('letters');
      const check = element('check'), digits = element('digits'), time = element('time');
      const note = element('note'), first = element('first'), second = element('second');
      let round = 0, deviceCode = '', verifier = '', shown = 0, ends = 0, label = '', ticking = null;
      // Whether the code ran out while nobody could see the page.
      let overslept = false;

      const encode = (bytes) =>
        btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
      const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

      // The cell that has a code, which balancers bring the call to; nothing where there are no others.
      const cell = (text) => (/^([1-9][0-9]*)\./.exec(text || '') || ['', ''])[1];

      async function call(path, body) {
        const headers = { 'content-type': 'application/json' };
        const there = cell(body.device_code || body.supersedes);
        if (there) headers['x-latchkey-cell'] = there;
        const answer = await fetch(path, {
          method: 'POST', cache: 'no-store', credentials: 'omit', referrerPolicy: 'no-referrer',
          headers, body: JSON.stringify(body),
        });
        // A server that has too much to do for the service to be asked says so in a line of text.
        if (answer.status === 503 && !/json/.test(answer.headers.get('content-type') || '')) {
          const retryAfter = Number(answer.headers.get('retry-after')) || 2;
          return { status: 429, body: { message: 'Too many people are signing in right now.', retry_after: retryAfter } };
        }
        const told = await answer.json();
        if (told === null || typeof told !== 'object') throw new TypeError('an object is expected');
        return { status: answer.status, body: told };
      }

      function say(heading, sentence, mood) {
        title.textContent = heading;
        title.className = mood || '';
        text.textContent = sentence;
        document.title = heading;
      }

      function button(which, label, act) {
        // Whoever works by keyboard or ear goes on at the heading, not at the top of the page.
        if (!label && document.activeElement === which) title.focus();
        which.hidden = !label;
        which.textContent = label || '';
        which.onclick = act || null;
      }

      function stopClock() {
        clearInterval(ticking);
        time.hidden = true;
      }

      function leave() {
        stopClock();
        frame.hidden = typed.hidden = check.hidden = true;
        note.textContent = '';
        button(second);
      }

      function draw(rows) {
        const border = 4, size = rows.length + 2 * border;
        let path = '';
        rows.forEach((row, y) => {
          for (let x = 0; x < row.length; x += 1) {
            if (row[x] === '1') path += `M${x + border} ${y + border}h1v1h-1z`;
          }
        });
        const namespace = 'http://www.w3.org/2000/svg';
        const shape = document.createElementNS(namespace, 'path');
        shape.setAttribute('d', path);
        code.setAttribute('viewBox', `0 0 ${size} ${size}`);
        code.replaceChildren(shape);
      }

      function startClock(seconds) {
        // Not the time of day: that one may be set while the code is on the screen.
        ends = performance.now() + seconds * 1000;
        label = 'A new code in';
        const tick = () => {
          const left = Math.max(0, Math.ceil((ends - performance.now()) / 1000));
          time.textContent = `${label} ${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
        };
        clearInterval(ticking);
        ticking = setInterval(tick, 250);
        tick();
        time.hidden = false;
      }

      async function begin(sentence) {
        const mine = ++round;
        shown += 1;
        overslept = false;
        veil.hidden = true;
        note.textContent = '';
        button(first);
        button(second);
        if (frame.hidden) say('Sign in with your phone', 'One moment.');
        const random = encode(crypto.getRandomValues(new Uint8Array(32)));
        const challenge = encode(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(random)));
        let answer;
        try {
          answer = await call('/signin/code', { code_challenge: challenge, supersedes: deviceCode });
        } catch {
          // Another cell may be there when this one is not; the old code is over by itself soon.
          if (cell(deviceCode)) deviceCode = '';
          return failed('The service cannot be reached.', mine);
        }
        if (mine !== round) return;
        if (answer.status !== 200) return failed(answer.body.message || 'No code could be made.', mine);
        deviceCode = answer.body.device_code;
        verifier = random;
        say('Sign in with your phone', sentence || 'Open the app that you are signed in to and scan this code.');
        draw(answer.body.modules);
        letters.textContent = answer.body.user_code;
        digits.textContent = answer.body.check_code;
        frame.hidden = typed.hidden = false;
        check.hidden = !answer.body.check_code;
        startClock(answer.body.expires_in);
        follow(mine);
      }

      async function follow(mine) {
        let version = 0, away = false;
        while (mine === round) {
          let answer;
          try {
            const wait = away ? 0 : 20000;
            answer = await call('/signin/poll', { device_code: deviceCode, last_version: version, wait_ms: wait });
          } catch {
            answer = null;
          }
          if (mine !== round) return;
          away = !answer || (answer.status !== 429 && !answer.body.state);
          if (away) {
            lost();
            if (cell(deviceCode) && performance.now() > ends) {
              deviceCode = '';
              return begin();
            }
            await pause(2000);
            continue;
          }
          note.textContent = '';
          if (answer.status === 429) {
            await pause((answer.body.retry_after || 2) * 1000);
            continue;
          }
          if (veil.textContent === 'Expired') veil.hidden = true;
          // A wait that ended without news changes nothing on the page, unless the service's clock was set back: then
          // the code outlives its time there, and nobody can scan it.
          if (answer.body.version && answer.body.version === version) {
            if (answer.body.state === 'pending' && performance.now() > ends + 10000) return begin();
            continue;
          }
          version = answer.body.version || version;
          if (!show(answer.body, mine)) return;
        }
      }

      // What is on the screen stays good while the service is away for a moment, but not longer than it would have.
      function lost() {
        const sentence = 'The service cannot be reached. Trying again…';
        if (note.textContent !== sentence) note.textContent = sentence;
        if (frame.hidden || performance.now() < ends) return;
        veil.textContent = 'Expired';
        veil.hidden = false;
        typed.hidden = check.hidden = true;
      }

      // False once there is nothing left to wait for.
      function show(now, mine) {
        const who = now.scanner_mask || 'Somebody';
        switch (now.state) {
          case 'pending':
            return true;
          case 'scanned':
            shown = 0;
            say('Scanned', `${who} has scanned the code. Go on with the phone.`);
            veil.textContent = 'Scanned';
            veil.hidden = false;
            typed.hidden = true;
            label = 'Time left to agree:';
            button(second, 'That was not me', () => giveUp());
            return true;
          case 'confirmed':
            leave();
            say(`Continue as ${who}?`, 'Go on only if this is your account. You would be signed in to it here.');
            button(first, 'Continue', () => redeem());
            button(second, 'That is not me', () => giveUp());
            return true;
          case 'denied':
            over('Refused', 'The sign-in was refused on the phone, or the number typed there was wrong.', 'bad');
            return false;
          case 'expired':
            if (shown < unattended && !document.hidden) {
              begin('The code before has expired. Scan this one in the app that you are signed in to.');
            } else {
              over('The code has expired', 'Codes live for a short time only.');
              overslept = shown < unattended;
            }
            return false;
          default:
            over('The code is no longer good', 'It was cancelled, or used before.', 'bad');
            return false;
        }
      }

      async function redeem() {
        // From here on the code is asked about by this call alone.
        const mine = ++round;
        say(title.textContent, 'One moment.');
        button(first);
        button(second);
        let answer;
        try {
          answer = await call('/signin/poll', { device_code: deviceCode, code_verifier: verifier, wait_ms: 0 });
        } catch {
          answer = { status: 503, body: { message: 'The service cannot be reached.' } };
        }
        if (mine !== round) return;
        if (answer.status >= 429) {
          // Nothing is lost yet: the code stays good for a minute after the phone agreed.
          failed(answer.body.message || 'The service cannot sign anybody in now.', mine, () => redeem());
          return button(second, 'Give up', () => giveUp());
        }
        if (!answer.body.tokens) {
          return over('The code is no longer good', 'It was cancelled, or took too long.', 'bad');
        }
        verifier = deviceCode = '';
        leave();
        say(answer.body.name ? `Signed in as ${answer.body.name}` : 'Signed in', 'This screen is signed in.', 'good');
        document.dispatchEvent(new CustomEvent('latchkey:signed-in', { detail: answer.body.tokens }));
      }

      async function giveUp() {
        round += 1;
        const old = deviceCode, last = Math.max(ends, performance.now()) + 60000;
        deviceCode = verifier = '';
        over('Nobody was signed in', 'The code is void.');
        // Until the server has heard it, or the code has expired by itself: a minute after the phone agreed at the latest.
        while (performance.now() < last) {
          let answer;
          try {
            answer = await call('/signin/cancel', { device_code: old });
          } catch {
            answer = { status: 503, body: {} };
          }
          if (answer.status < 429) return;
          await pause((answer.body.retry_after || 2) * 1000);
        }
      }

      function over(heading, sentence, mood) {
        round += 1;
        deviceCode = verifier = '';
        leave();
        say(heading, sentence, mood);
        button(first, 'Show a new code', () => { shown = 0; begin(); });
      }

      document.addEventListener('visibilitychange', () => {
        if (overslept && !document.hidden) begin();
      });

      function failed(sentence, mine, again) {
        if (mine !== round) return;
        leave();
        say('That did not work', sentence, 'bad');
        button(first, 'Try again', again || (() => begin()));
      }

      if (!window.isSecureContext) failed('This page needs HTTPS.', round);
      else begin();
    })();

    """#
}
