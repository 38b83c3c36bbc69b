"""Which language is a text in, and which of its words are grammar?"""

from __future__ import annotations

import re

from rag_mcp.text.folding import fold
from rag_mcp.text.terms import LANGUAGES, NO_LANGUAGE, Piece, letters

__all__ = ["detect_language", "is_frame_word", "is_grammar", "is_particle", "is_stop_word"]

_STOP_WORDS = {
    "en": """a about above after again all also am an and any are as at be because been before being between both but
        by can could did do does doing dont down each eg etc few for from further had has have having he her here hers him his
        how i if in into is it its just me more most my no nor not of off on once only or other our out over own s same
        she should so some such t than that the their them then there these they this those through to too under until
        up us very was we were what when where which while who whom whose why will with would you your""",
    "es": """a al algo algunos ante antes aquel aquella como con contra cual cuales cuando cuanta cuantas cuanto cuantos
        de del desde donde dos durante e el ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba
        estan estar estas este esto estos fue fueron ha habia han hasta hay la las le les lo los mas me mi mientras muy
        ni no nos o otra otro para pero poco por porque que quien quienes se sea ser si sido sin sobre son su sus
        tambien tanto te tiene tienen todo todos tras tu un una uno unos y ya yo""",
    "pt": """a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre era eram essa
        esse esta estao estas este estes eu foi foram ha isso isto ja mais mas me mesmo meu minha muito na nao nas nem
        no nos nossa nosso num numa o os ou para pela pelas pelo pelos por porque qual quais quando quanto que quem se
        sem ser seu seus sao sua suas tambem te tem tinha um uma umas uns voce""",
    "fr": """a ai au aucun aussi autre aux avec avoir c ce ces cet cette comme comment d dans de des donc dont du elle
        elles en est et etait ete etre eu fait il ils j je l la le les leur leurs lors lui m ma mais me meme mes moi mon
        n ne nos notre nous on ont ou par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
        sans se ses si son sont sous sur ta te tes toi ton tous tout tres tu un une vos votre vous y""",
    "de": """aber alle als also am an auch auf aus bei beim bin bis bist da damit dann das dass dem den der des die dies
        diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er es euch fur hat haben
        hatte hatten hier ich ihm ihn ihnen ihr ihre im in ist ja kann kein keine konnen man mehr mein mich mir mit nach
        nicht noch nur ob oder ohne sehr sein seine sich sie sind so uber um und uns unter vom von vor wann war waren
        warum was weil welche welcher welches wenn wer werden wie wieder wir wird wo wurde wurden zu zum zur""",
    "it": """a ad ai al alla alle allo anche c che chi ci come con cosa cui d da dagli dai dal dalla dalle dei degli del
        della delle dello di dove e ed era erano essere fra gli ha hanno ho i il in io l la le lei li lo loro lui ma me
        mi mia mio ne nei nel nella nelle nello noi non nostro o ogni per perche piu po qual quale quali quando quanto
        quella quelle quelli quello questa queste questi questo se sei si sia sono stata stato su sua sue sugli sui sul
        sulla suo suoi tra tu un una uno vi voi""",
    "nl": """aan al alle als altijd ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen had
        heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kon kunnen maar me meer men met mij mijn moet na
        naar niet niets nog nu of om omdat ons ook op over te tegen tot u uit uw van veel voor waar waarom wanneer want
        waren was wat we wel welke werd wezen wie wil worden wordt zal ze zelf zich zij zijn zo zonder zou""",
}
_FRAME_WORDS = {
    "en": """according across actually allow allowed allows along although among another anyone anything associated
        became become becomes called certain come comes concerning consider considered contain contains context
        contexts currently define defined describe described describes differ difference differences different
        discuss discussed discusses either else ever every everything exactly exist exists explain explained
        explains find finds found generally give given gives go goes going gone happen happened happening
        happens help helping helps include included includes including instead involve involved involves kind
        kinds knew know known knows like likely locate located main mainly many may mean meaning means meant
        mention mentioned mentions might much must name named names need needed needs neither often particular
        particularly please possible present primarily primary provide provided provides purpose reason reasons
        refer referred refers regarding relate related relation said say says several shall show showed shown
        shows simply since someone something sort sorts specific specifically still take taken takes tell thing
        things though thought together told took type types typically upon used usually via want wants way ways
        went whether within word words""",
    "es": """acerca actualmente ademas ahora alguien algun alguna algunas alguno aun aunque cada caso casos cierto
        clase clases considera considerado consiste contiene cosa cosas cualquier da dado dar debe deben decir
        denomina dentro describe descrito despues dice dicho diferencia diferencias diferente ejemplo ejemplos
        encontrar encuentra encuentran entonces existe existen explica explicar hace hacen hacer hacia haciendo
        hizo hubo incluye incluyen llama llamaba llamada llamado llaman llamo manera mayoria mediante menciona
        mencionado mencionan menudo mismo modo mucha muchas mucho muchos necesita necesito nombre nombres nunca
        ocurre pasa podria principal principales proposito pueda puede pueden puedo quiere quiero razon razones
        referente refiere relacion respecto sabe saber segun seria siempre significa significado sirve sirven
        solo suele tener tenia tenian tipo tipos toda todas traves usa usado usan usar utiliza utilizado
        utilizan utilizar varios veces vez""",
    "pt": """acerca acontece aconteceu agora algo alguem algum alguma algumas alguns apos atualmente bem cada caso
        chama chamada chamado chamam chamava coisa coisas conforme consiste contem dado dentro descreve descrito
        deve devem diferenca diferencas diferente dito dizer durante encontra encontrar entao exemplo exemplos
        existe existem explica explicar explique faz fazem fazer feito fez finalidade geralmente houve incluem
        inclui maneira menciona mencionada mencionado modo motivo motivos muita muitas muitos nome nomes nunca
        ocorre onde outra outras outros pode podem poderia posso precisa preciso principais principal proposito
        quanta quantas quantos quer quero razao razoes refere relacao relacionado respeito saber segundo sempre
        serve significa significado ter tipo tipos todas todos usa usada usado usam usar utiliza utilizado
        utilizar varios vez vezes""",
    "fr": """afin ainsi ajoute appele appelee appelees appelle appellent apres autour autres avant beaucoup car cas
        certain certaine certaines certains chaque chose choses combien concernant concerne consiste contient
        difference differences different dire dit doit doivent durant entre etaient exemple exemples existe
        existent explique expliquer facon faire faite faites faut font grace indique indiquer laquelle lequel
        lesquels lorsque maniere mentionne mentionnee mentionnes nom nomme nommee noms pendant permet peut
        peuvent peux possible pourrait principal principale principaux raison raisons relatif savoir selon sert
        servent signifie sorte souvent toujours toute toutes trouve trouvent trouver type types utilise utilisee
        utilisent utiliser utilises vers veut veux voir""",
    "de": """aktuell alles allgemein andere anderen anderer anderes anhand aufgrund bedeutet bedeutung befindet
        begriff beispiel beispiele beispielsweise benutzt bereits beschreibt beschrieben besteht bezeichnet
        bezug dabei dafur danach daran darauf darin davon dazu derzeit ebenfalls eigentlich einige enthalt
        entsprechend erklaren erklart erlautert erwahnt etwa etwas finden findet gab ganz geben gegeben gehen
        gehort geht gemacht genannt genau gibt grunde handelt hauptsachlich heissen heisst immer innerhalb
        irgendwie jede jeder jedes jeweils kommen kommt lasst laut lautet machen macht manche meint meist mochte
        moglich muss mussen name nennt nutzt oft passiert sagen sagt seit sogar soll sollen sollte sollten sonst
        sorte statt tun tut typ typen unterschied unterschiede verschiedene verwenden verwendet viel viele
        vielen wahrend wegen weise weiss weiter welchem welchen wessen wieso wieviel wieviele will wobei wodurch
        wofur womit woran worden worin wozu zwar zweck zwischen""",
    "it": """accade adesso alcune alcuni alcuno altra altre altri altro ancora attraverso attualmente avere avviene
        basa casi caso certo chiama chiamano chiamata chiamato ciascuno circa comporta concerne considerato
        consiste contiene cose descritto descrive detto deve devono dice differenza differenze diversi diverso
        durante esempi esempio esiste esistono fa fanno fare fatto funzione genere grande include invece maniera
        mediante menziona menzionati menzionato modo molte molti molto motivi motivo nome nomi parla possibile
        posso possono principale principali proposito puo qualche qualcosa qualcuno qualsiasi quante quanti
        ragione ragioni riferisce riguarda riguardo rispetto sapere scopo secondo sempre senza serve servono
        significa significato solo sotto spesso spiega spiegare svolge tipi tipo trova trovano trovare tutta
        tutte tutti tutto usa usano usare usato utilizza utilizzare utilizzati utilizzato vengono viene volta
        volte vuole""",
    "nl": """aangaande aantal achter alleen allerlei andere anders beschreven beschrijft bestaan bestaat betekenis
        betekent betreffende bevat bijvoorbeeld binnen buiten daarbij daarna daarom daarvoor ding dingen doet
        eens eigenlijk elk elke enige enkele ergens gaan gaat gebeurd gebeurt gebruik gebruiken gebruikt gedaan
        geeft gegeven gemaakt genaamd genoemd gezegd heet heten hierbij hoeveel ieder iedere iemand iets indien
        inzake komen komt krijgt laten leg lijkt maak maakt maken manier manieren meestal moeten mogelijk naam
        namen noemt omschreven onder reden redenen sinds soms soort soorten staan staat steeds tijdens tussen
        uitleg uitleggen vaak vanaf vanwege vele verder verschil verschillen verschillende verwijst vind vinden
        vindt volgens vooral voorbeeld voorbeelden waarbij waardoor waarin waarmee waaronder waarop waarvan
        waarvoor weet wegens welk weten zeggen zegt zoals zoeken""",
}
"""Words in which questions are put and that their answers need not hold, folded; rare in many notes, they weigh too much."""
_STOP_SETS = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_FRAME_SETS = {language: frozenset(words.split()) for language, words in _FRAME_WORDS.items()}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {
    word: tuple(language for language in LANGUAGES if word in _STOP_SETS[language])
    for words in _STOP_SETS.values()
    for word in words
    if len(word) > 1
}
_SAMPLE_CHARS = 2_000
_PLAIN_WORD = re.compile(r"[^\W\d_]+")


_PARTICLES = frozenset(
    "的了吗嗎呢吧在是和与與有我你他她它这那這哪不也都很就はがをにのへともでやかねよだ은는이가을를에의도로와과만요다"
)
_GRAMMAR_PAIRS = """什么 么是 是什 什麼 麼是 哪里 哪裡 在哪 哪儿 怎么 怎麼 么样 麼樣 如何 为什 為什 多少 几个 幾個 请问 請問 有没 没有 有沒 沒有
    想知 知道 何で 何を 何が 어디 디에 에서 있나 나요 있습 습니 니까 니다 무엇 엇입 입니 언제 누가 어떻 떻게 얼마"""
_GRAMMAR = frozenset(_GRAMMAR_PAIRS.split())
_HIRAGANA = re.compile("[\u3040-\u309f]+")


def is_particle(letter: str) -> bool:
    """Tell whether one letter of Chinese, Japanese or Korean is mostly grammar."""
    return letter in _PARTICLES or _HIRAGANA.fullmatch(letter) is not None


def is_grammar(piece: Piece) -> bool:
    """Tell whether a pair of letters is mostly grammar: "where is", "what", verb endings."""
    return piece.complete in _GRAMMAR or (bool(found := letters(piece)) and all(map(is_particle, found)))


def is_stop_word(word: str, language: str) -> bool:
    """Tell whether a folded word carries no content in that language."""
    return word in _STOP_SETS.get(language, ())


def is_frame_word(word: str, language: str) -> bool:
    """Tell whether a folded word rather puts a question in that language than says what is asked for."""
    return word in _FRAME_SETS.get(language, ())


def detect_language(text: str, *, default: str = NO_LANGUAGE) -> str:
    """Guess the language by its stop words; ``default`` when they are too few or point two ways.

    A stop word of several languages counts for each by its share, and each word once: code repeats ``os`` and ``do``.
    """
    scores = dict.fromkeys(LANGUAGES, 0.0)
    for word in set(_PLAIN_WORD.findall(fold(text[:_SAMPLE_CHARS]))):
        owners = _LANGUAGES_OF.get(word)
        if owners:
            for language in owners:
                scores[language] += 1 / len(owners)
    ranked = sorted(scores.items(), key=lambda item: -item[1])
    (best, first), (_, second) = ranked[0], ranked[1]
    return best if first >= 1.5 and first >= 1.15 * second else default
